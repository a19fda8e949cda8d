"""The page: plan a road, watch its rounds, follow its runs."""
