"""Leases held on this host: the journal that survives everything, the desk that acts on it, the renewer that keeps them."""
