"""A sweep as one page."""
