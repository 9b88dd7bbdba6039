"""The control plane: scheduling, capacity, and the Kubernetes operator."""
