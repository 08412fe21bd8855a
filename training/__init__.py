"""The training job: what runs inside the Ray cluster, the same on GPUs and on a machine without any."""
