"""A deployment on one machine: processes that come and go as vehicles do."""
