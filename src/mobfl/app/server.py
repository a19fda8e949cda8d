"""The page's server: what can be asked, and how it is answered.

GET  /            the page and its parts
GET  /api/start   the fields, the packaged scenarios, what there is
POST /api/plan    a scenario's plan, and its TOML
POST /api/road    rounds of a simulation
POST /api/trace   an uploaded trace, compared with Poisson traffic
GET  /api/curve   a run's loss or KPI over virtual time
GET  /api/live    the runs, and what changes
"""

from collections.abc import Callable
from importlib import resources
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

import mobfl
from mobfl.app import planning, road, traces
from mobfl.app.background import Background
from mobfl.app.fields import fields
from mobfl.app.live import changes
from mobfl.app.requests import positive, read_body, read_table, table_from, whole
from mobfl.app.runs import RunsFolder
from mobfl.app.security import SameOriginOnly
from mobfl.errors import InputError

_KINDS = {".html": "text/html", ".css": "text/css", ".js": "text/javascript"}
_MOST_STREAMS = 16
_MOST_SEED = 2**31
_LONGEST_ROUND_S = 1e9


def build(host: str = "127.0.0.1", runs: Path | None = None, closing: Callable[[], bool] = lambda: False) -> Starlette:
    """The application for a host; streams end once `closing` says so."""
    answers = _Answers(None if runs is None else RunsFolder(runs), closing)
    routes = [
        Route("/api/start", answers.start),
        Route("/api/plan", answers.plan, methods=["POST"]),
        Route("/api/road", answers.road, methods=["POST"]),
        Route("/api/trace", answers.trace, methods=["POST"]),
        Route("/api/curve", answers.curve),
        Route("/api/live", answers.live),
        *(Route(path, _file(content, kind)) for path, content, kind in _files()),
    ]
    return Starlette(
        routes=routes,
        middleware=[Middleware(SameOriginOnly, host=host)],
        exception_handlers={InputError: _wrong_input, HTTPException: _refused, Exception: _failed},
    )


class _Answers:
    """One method per question."""

    def __init__(self, runs: RunsFolder | None, closing: Callable[[], bool]) -> None:
        self._runs, self._closing = runs, closing
        self._background = Background()
        self._watching = Background()  # a folder that takes long to look through keeps nobody else waiting
        self._streams = 0

    async def start(self, _: Request) -> Response:
        return JSONResponse(
            {
                "version": mobfl.__version__,
                "fields": fields(),
                "presets": planning.presets(),
                "has_runs": self._runs is not None,
                "most_upload_bytes": traces.MOST_BYTES,
                "most_rounds": road.MOST_ROUNDS,
            }
        )

    async def plan(self, request: Request) -> Response:
        return JSONResponse(await self._background.run(planning.planned, await read_table(request)))

    async def road(self, request: Request) -> Response:
        asked = await read_table(request)
        scenario = planning.scenario_from(asked.get("tables"))
        h, t = whole(asked, "local_steps", 1, planning.MOST_STEPS), positive(asked, "round_s", _LONGEST_ROUND_S)
        seed, count = whole(asked, "seed", 0, _MOST_SEED), whole(asked, "count", 1, road.MOST_AT_ONCE)
        first = whole(asked, "first", 0, road.MOST_ROUNDS - count)
        answer = await self._background.run(road.passing_rounds, scenario, h, t, seed, first, count)
        if first == 0:
            answer |= await self._background.run(road.expectation, scenario, h, t, seed)
        return JSONResponse(answer)

    async def trace(self, request: Request) -> Response:
        asked = request.query_params
        scenario = planning.scenario_from(table_from(asked.get("tables", "{}")))
        content = await read_body(request, traces.MOST_BYTES)
        name, section = asked.get("name", ""), asked.get("section", "")
        return JSONResponse(await self._background.run(traces.compared, content, name, section, scenario))

    async def curve(self, request: Request) -> Response:
        run, column = (request.query_params.get(name, "") for name in ("run", "column"))
        return JSONResponse(await self._background.run(self._folder().curve, run, column))

    async def live(self, _: Request) -> Response:
        if self._streams >= _MOST_STREAMS:
            raise HTTPException(503, f"at most {_MOST_STREAMS} pages may watch runs at once")
        events = changes(self._folder(), self._watching, self._closing)
        return StreamingResponse(self._counted(events), media_type="text/event-stream")

    async def _counted(self, events: Any) -> Any:
        self._streams += 1
        try:
            async for event in events:
                yield event
        finally:
            self._streams -= 1

    def _folder(self) -> RunsFolder:
        if self._runs is None:
            raise HTTPException(404, "there is no folder of runs: start with mobfl app --runs FOLDER")
        return self._runs


def _files() -> list[tuple[str, bytes, str]]:
    """The page and its parts by path: a fixed list, so that no path leads anywhere else."""
    found = list[tuple[str, bytes, str]]()
    for file in (resources.files("mobfl.app") / "static").iterdir():
        kind = _KINDS.get(Path(file.name).suffix)
        if kind is not None:
            found.append((f"/{file.name}", file.read_bytes(), kind))
    page = next(each for each in found if each[0] == "/index.html")
    return [*found, ("/", *page[1:])]


def _file(content: bytes, kind: str) -> Callable[[Request], Any]:
    async def answer(_: Request) -> Response:
        return Response(content, media_type=kind)

    return answer


def _wrong_input(_: Request, error: Exception) -> Response:
    assert isinstance(error, InputError)
    return JSONResponse({"errors": error.lines}, status_code=400)


def _refused(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return JSONResponse({"errors": [error.detail]}, status_code=error.status_code)


def _failed(_: Request, __: Exception) -> Response:
    return JSONResponse({"errors": ["this could not be answered; the terminal of mobfl app says why"]}, status_code=500)
