"""Every version this project pins; requirements.lock holds the Python packages behind them."""

# The versions inside public.ecr.aws/deep-learning-containers/ray:train-ml-cuda-v1.1, which the local platform matches.
RAY = "2.58.0"
TORCH = "2.13.0"
