"""Bytes in and out: files that are there as a whole or not at all, JSON, XML, the cache."""
