"""The queue of tasks, work packages and their leases, submissions, opportunities."""
