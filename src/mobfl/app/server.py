"""The page's server: what can be asked, and how it is answered.

GET  /            the page and its parts
GET  /api/start   the fields, the packaged scenarios, what there is
POST /api/plan    a scenario's plan, and its TOML
POST /api/anytime the plan of its anytime rounds
POST /api/road    rounds of a simulation
POST /api/delivered  what simulated rounds make of a plan
POST /api/trace   an uploaded trace, compared with Poisson traffic; DELETE with its job calls it off, GET says how far
POST /api/map     an uploaded network or recording, to draw a section on
GET  /api/curve   a run's loss or KPI over virtual time
POST /api/again   the commands that train runs again
GET  /api/deployment  who is there in a deployment, and what became of whom
GET  /api/live    the runs, and what changes
"""

import json
from collections.abc import Callable, Mapping
from functools import partial
from importlib import resources
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

import mobfl
from mobfl.app import maps, planning, road, traces
from mobfl.app.background import Background
from mobfl.app.cancelling import Cancellable, while_awaited
from mobfl.app.fields import fields, labels, units
from mobfl.app.live import changes
from mobfl.app.requests import positive, read_body, read_table, table_from, texts, whole
from mobfl.app.runs import RunsFolder
from mobfl.app.security import SameOriginOnly
from mobfl.app.token import TokenNeeded
from mobfl.app.uploads import MOST_BYTES
from mobfl.app.workers import Answer, Lane, Limits
from mobfl.errors import InputError
from mobfl.scenario import Scenario

_KINDS = {".html": "text/html", ".css": "text/css", ".js": "text/javascript"}
_MOST_STREAMS = 16
_MOST_AGAIN = 400  # runs
_MOST_SEED = 2**31
_LEAST_ROUND_S, _LONGEST_ROUND_S = 1e-3, 1e9
PLANS = Limits(seconds=30, mib=1024, at_once=2, waiting=30)
ROADS = Limits(seconds=120, mib=1024, at_once=2, waiting=30)
TRACES = Limits(seconds=300, mib=2048, at_once=2, waiting=6)


def build(
    host: str = "127.0.0.1",
    port: int = 8000,
    token: str | None = None,
    runs: Path | None = None,
    closing: Callable[[], bool] = lambda: False,
) -> Starlette:
    """The application for a host and port; without a token everybody is let in. Streams end once `closing` says so."""
    answers = _Answers(None if runs is None else RunsFolder(runs), closing)
    routes = [
        Route("/api/start", answers.start),
        Route("/api/plan", answers.plan, methods=["POST"]),
        Route("/api/anytime", answers.anytime, methods=["POST"]),
        Route("/api/road", answers.road, methods=["POST"]),
        Route("/api/delivered", answers.delivered, methods=["POST"]),
        Route("/api/trace", answers.trace, methods=["POST"]),
        Route("/api/trace", answers.cancel_trace, methods=["DELETE"]),
        Route("/api/trace", answers.trace_stage),
        Route("/api/map", answers.map, methods=["POST"]),
        Route("/api/curve", answers.curve),
        Route("/api/again", answers.again, methods=["POST"]),
        Route("/api/deployment", answers.deployment),
        Route("/api/live", answers.live),
        *(Route(path, _file(content, kind)) for path, content, kind in _files()),
    ]
    app = Starlette(
        routes=routes,
        middleware=[
            Middleware(SameOriginOnly, host=host),
            *([] if token is None else [Middleware(TokenNeeded, token=token, port=port)]),
        ],
        exception_handlers={
            InputError: _wrong_input,
            HTTPException: _refused,
            ClientDisconnect: _unheard,
            Exception: _failed,
        },
    )
    app.router.redirect_slashes = False
    return app


class _Answers:
    """One method per question."""

    def __init__(self, runs: RunsFolder | None, closing: Callable[[], bool]) -> None:
        self._runs, self._closing = runs, closing
        self._plans = Lane("a plan", "mobfl plan", PLANS)
        self._roads = Lane("simulated rounds", "mobfl simulate", ROADS)
        self._traces = Lane("the comparison of a trace", "mobfl plan --trace FILE", TRACES)
        self._jobs = Cancellable(closing)
        self._reading = Background("reading a run")
        self._watching = Background("looking through the folder")  # it may take long, and nobody else waits for it
        self._streams = 0

    async def start(self, _: Request) -> Response:
        return _json(
            {
                "version": mobfl.__version__,
                "fields": fields(),
                "labels": labels(),
                "units": units(),
                "presets": planning.presets(),
                "has_runs": self._runs is not None,
                "most_upload_bytes": MOST_BYTES,
                "most_trace_s": TRACES.seconds,
                "most_rounds": road.MOST_ROUNDS,
            }
        )

    async def plan(self, request: Request) -> Response:
        with self._plans.place():
            return await self._jobs.run(self._planned(request))

    async def _planned(self, request: Request) -> Response:
        asked, start = await read_table(request), request.query_params.get("from")
        return _told(await while_awaited(request, self._plans.run(planning.planned, asked, start)))

    async def anytime(self, request: Request) -> Response:
        with self._plans.place():
            return await self._jobs.run(self._planned_anytime(request))

    async def _planned_anytime(self, request: Request) -> Response:
        asked, knows = await read_table(request), _knows(request)
        return _told(await while_awaited(request, self._plans.run(planning.planned_anytime, asked, knows)))

    async def road(self, request: Request) -> Response:
        with self._roads.place():
            return await self._jobs.run(self._rounds(request))

    async def _rounds(self, request: Request) -> Response:
        asked = await read_table(request)
        scenario, h, t = _plan_asked(asked)
        seed, count = whole(asked, "seed", 0, _MOST_SEED), whole(asked, "count", 1, road.MOST_AT_ONCE)
        first = whole(asked, "first", 0, road.MOST_ROUNDS - count)
        work = self._roads.run(road.passing_rounds, scenario, h, t, seed, first, count)
        return _told(await while_awaited(request, work))

    async def delivered(self, request: Request) -> Response:
        with self._roads.place():
            return await self._jobs.run(self._delivered(request))

    async def _delivered(self, request: Request) -> Response:
        work = self._roads.run(road.delivered, *_plan_asked(await read_table(request)))
        return _told(await while_awaited(request, work))

    async def trace(self, request: Request) -> Response:
        job = self._jobs.new_name(request.query_params.get("job", ""))
        with self._traces.place():
            return await self._jobs.run(self._compared(request, job), job)

    async def _compared(self, request: Request, job: str) -> Response:
        asked = request.query_params
        scenario = planning.scenario_from(table_from(asked.get("tables", "{}")))
        content = await read_body(request, MOST_BYTES)
        name, section = asked.get("name", ""), asked.get("section", "")
        given = content, name, section, scenario, _knows(request), asked.get("from")
        work = self._traces.run(traces.compared, *given, hear=partial(self._jobs.tell, job))
        return _told(await while_awaited(request, work))

    async def trace_stage(self, request: Request) -> Response:
        return _json(self._jobs.stage(request.query_params.get("job", "")) or {"stage": None})

    async def cancel_trace(self, request: Request) -> Response:
        self._jobs.cancel(request.query_params.get("job", ""))
        return _json({"cancelled": True})

    async def map(self, request: Request) -> Response:
        with self._traces.place():
            return await self._jobs.run(self._map(request))

    async def _map(self, request: Request) -> Response:
        content = await read_body(request, MOST_BYTES)
        work = self._traces.run(maps.drawn, content, request.query_params.get("name", ""))
        return _told(await while_awaited(request, work))

    async def curve(self, request: Request) -> Response:
        run, column = (request.query_params.get(name, "") for name in ("run", "column"))
        return _json(await self._reading.run(self._folder().curve, run, column))

    async def again(self, request: Request) -> Response:
        folder, names = self._folder(), texts(await read_table(request), "runs", _MOST_AGAIN)
        return _json(await self._reading.run(folder.again, names))

    async def deployment(self, request: Request) -> Response:
        return _json(await self._reading.run(self._folder().deployment, request.query_params.get("run", "")))

    async def live(self, request: Request) -> Response:
        if self._streams >= _MOST_STREAMS:
            raise HTTPException(503, f"at most {_MOST_STREAMS} pages may watch runs at once")
        if request.method == "HEAD":
            return Response(media_type="text/event-stream")
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


def _plan_asked(asked: dict[str, Any]) -> tuple[Scenario, int, float]:
    """The scenario with the H and T to try on it."""
    scenario = planning.scenario_from(asked.get("tables"))
    h = whole(asked, "local_steps", 1, planning.MOST_STEPS)
    return scenario, h, positive(asked, "round_s", _LEAST_ROUND_S, _LONGEST_ROUND_S)


def _knows(request: Request) -> str:
    """What vehicles know of their leaving in anytime rounds."""
    return request.query_params.get("knows", "nothing")


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


def _json(content: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """In ASCII: what came in may hold halves of characters, which UTF-8 does not know."""
    return Response(json.dumps(content, allow_nan=False), status, headers, "application/json")


def _told(answer: Answer) -> Response:
    return Response(answer.content, answer.status, media_type="application/json")


def _wrong_input(_: Request, error: Exception) -> Response:
    assert isinstance(error, InputError)
    return _json({"errors": error.lines}, 400)


def _refused(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return _json({"errors": [error.detail]}, error.status_code, error.headers)


def _unheard(_: Request, __: Exception) -> Response:
    return Response(status_code=400)  # whoever asked is gone


def _failed(_: Request, __: Exception) -> Response:
    return _json({"errors": ["this could not be answered; the terminal of mobfl app says why"]}, 500)
