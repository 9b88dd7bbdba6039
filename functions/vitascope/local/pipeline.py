"""The pipeline's own processes as children of a run: which, in which order, told what, and when each is ready."""

import sys
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from vitascope.local import probes
from vitascope.local.child import ChildSpec
from vitascope.local.ports import LOOPBACK
from vitascope.local.servers import Servers

STAGE_READY_S = 600.0
"""A stage is ready when its model is loaded; the largest take minutes from a slow disk."""
INGRESS = "HTTP API"
PORT_NAMES = (INGRESS, "scheduler metrics", "denoise", "decode", "encode")
HTTP_OK = 200


@dataclass(frozen=True)
class Pipeline:
    """The processes of one run, besides the two servers.

    Attributes:
        servers: where NATS and S3 are.
        ports: ports by name: the HTTP door's, `denoise` for the first group, `denoise1` for the second, …
        scratch: folder for files in the making.
        groups: number of denoise groups.
    """

    servers: Servers
    ports: Mapping[str, int]
    scratch: Path
    groups: int = 1

    def plan_children(self) -> list[list[ChildSpec]]:
        """Groups of children in the order of their start.

        The scheduler makes the streams and buckets, so it comes first; the door comes last, so it opens on a working
        pipeline.
        """
        publish = ChildSpec(name="publish", argv=_python("vitascope", "publish"), env=self._env())
        deliver = ChildSpec(name="deliver", argv=_python("vitascope", "deliver"), env=self._env())
        stages = [self._plan_group(index) for index in range(self.groups)]
        scratch = {"VITASCOPE_ENCODE__SCRATCH": str(self.scratch)}
        stages += [self._plan_stage("decode"), self._plan_stage("encode", more=scratch)]
        return [[self._plan_scheduler()], [publish, deliver, *stages], [self._plan_ingress()]]

    def _plan_scheduler(self) -> ChildSpec:
        port = self.ports["scheduler metrics"]
        env = {"VITASCOPE_METRICS__HOST": LOOPBACK, "VITASCOPE_METRICS__PORT": str(port)}
        return ChildSpec(
            name="scheduler",
            argv=_python("vitascope_operator", "schedule"),
            env=self._env() | env,
            is_ready=_answers(port, "/metrics"),
            is_live=_answers(port, "/metrics"),
        )

    def _plan_group(self, index: int) -> ChildSpec:
        name = "denoise" if index == 0 else f"denoise{index}"
        return self._plan_stage("denoise", name, {"VITASCOPE_DENOISE__GROUP": f"g{index}"})

    def _plan_stage(self, stage: str, name: str = "", more: Mapping[str, str] | None = None) -> ChildSpec:
        port = self.ports[name or stage]

        env = {f"VITASCOPE_{stage.upper()}__HOST": LOOPBACK, f"VITASCOPE_{stage.upper()}__PORT": str(port)}
        return ChildSpec(
            name=name or stage,
            argv=_python("vitascope", stage),
            env=self._env() | env | dict(more or {}),
            is_ready=_answers(port, "/v2/health/ready"),
            is_live=_answers(port, "/v2/health/live"),
            ready_deadline_s=STAGE_READY_S,
            grace_s=40.0,
        )

    def _plan_ingress(self) -> ChildSpec:
        port = self.ports[INGRESS]

        env = {"VITASCOPE_INGRESS__HOST": LOOPBACK, "VITASCOPE_INGRESS__PORT": str(port)}
        return ChildSpec(
            name="ingress",
            argv=_python("vitascope", "ingress"),
            env=self._env() | env,
            is_ready=_answers(port, "/readyz"),
            is_live=_answers(port, "/healthz"),
        )

    def _env(self) -> dict[str, str]:
        return name_servers(self.servers)


def name_servers(servers: Servers) -> dict[str, str]:
    """The environment by which a process finds the servers."""
    secrets = servers.credentials
    return {
        "VITASCOPE_NATS__URL": servers.nats_url,
        "VITASCOPE_NATS__USER": secrets.nats_user,
        "VITASCOPE_NATS__PASSWORD": secrets.nats_password,
        "VITASCOPE_S3__ENDPOINT": servers.s3_endpoint,
        "VITASCOPE_S3__ACCESS_KEY": secrets.s3_access_key,
        "VITASCOPE_S3__SECRET_KEY": secrets.s3_secret_key,
    }


def name_ports(groups: int) -> tuple[str, ...]:
    """The names of all ports of a run with that many denoise groups."""
    return (*PORT_NAMES, *(f"denoise{index}" for index in range(1, groups)))


def _answers(port: int, target: str) -> Callable[[], Awaitable[bool]]:
    """Whether a GET on the loopback address is answered with 200."""

    async def is_ready() -> bool:
        status, _ = await probes.get(port, target)
        return status == HTTP_OK

    return is_ready


def _python(package: str, role: str) -> tuple[str, ...]:
    return (sys.executable, "-m", package, role)
