"""Leases held on this host: the journal that survives, the desk that acts on it, the renewer that keeps them."""
