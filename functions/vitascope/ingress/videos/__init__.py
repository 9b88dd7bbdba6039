"""`/v1/videos`: the API that clients of OpenAI's Videos API and of vLLM-Omni speak, over the same jobs as ours."""

from vitascope.ingress.videos import content, create, records, remix, sync

VIDEO_ROUTERS = (create.router, sync.router, remix.router, records.router, content.router)
"""Fixed addresses come before those with an id in their place."""

__all__ = ["VIDEO_ROUTERS"]
