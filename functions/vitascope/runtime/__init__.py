"""What every process is built on: ports, settings, the stage loop, leases, logs and metrics. No vendor's service."""
