# SPDX-License-Identifier: BSD-2-Clause
"""The middleware for WSGI, ASGI and Django, with a file, and without the daemon."""

import asyncio

import pytest

import weir
import weir.middleware

POLICY = "gcra 10/m burst 2"
DOWN = "weir://127.0.0.1:1"  # nothing listens there
FIELDS = {"ratelimit-policy": '"limit";q=2;w=12', "ratelimit": '"limit";r=0;t=6', "retry-after": "6"}


@pytest.fixture
def url(tmp_path):
    return f"weir+file://{tmp_path}/limits?size=8m"


@pytest.fixture
def clock():
    return lambda: 1_800_000_000_000_000_000


# ---- one client for each kind of server: get(path, peer, headers) -> status, header fields, text


def wsgi(url, clock, **options):
    def app(environ, start_response):
        start_response("200 OK", [("Content-Type", "text/plain")])
        return [str(environ.get("weir.decision")).encode()]

    limited = weir.middleware.WSGILimit(app, weir.Limiter(*options.pop("policy", [POLICY]), url, **clock), **options)

    def get(peer="192.0.2.1", path="/"):
        seen = []
        body = limited({"REMOTE_ADDR": peer, "PATH_INFO": path, "REQUEST_METHOD": "GET"}, lambda *words: seen.append(words))
        status, headers = seen[0]
        return int(status.split()[0]), {name.lower(): value for name, value in headers}, b"".join(body).decode()

    return get


def asgi(url, clock, limiter=weir.AsyncLimiter, **options):
    async def app(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/plain")]})
        await send({"type": "http.response.body", "body": str(scope.get("weir.decision")).encode()})

    limited = weir.middleware.ASGILimit(app, limiter(*options.pop("policy", [POLICY]), url, **clock), **options)

    def get(peer="192.0.2.1", path="/"):
        sent = []

        async def send(message):
            sent.append(message)

        asyncio.run(limited({"type": "http", "client": (peer, 1), "path": path}, None, send))
        headers = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
        return sent[0]["status"], headers, b"".join(one.get("body", b"") for one in sent).decode()

    return get


@pytest.fixture(params=[wsgi, asgi], ids=["wsgi", "asgi"])
def serve(request, url, clock):
    def make(url=url, **options):
        return request.param(url, {"clock": clock} if url.startswith("weir+file") else
                             {"on_error": options.pop("on_error", "open")}, **options)

    make.kind = request.param
    return make


def path_of(request):
    return request.get("PATH_INFO") or request.get("path")


def test_requests_are_limited(serve):
    get = serve()
    status, headers, text = get()
    assert (status, headers["ratelimit"]) == (200, '"limit";r=1;t=6')
    assert text.startswith("Decision(allowed=True, limit=2, remaining=1,")
    assert get()[0] == 200
    assert get() == (429, {"content-type": "text/plain; charset=utf-8", "content-length": "18", **FIELDS},
                     "too many requests\n")
    assert get("192.0.2.2")[0] == 200


def test_an_ipv6_client_is_its_network(serve):
    get = serve(cost=2)
    assert [get("2001:db8::1")[0], get("2001:db8:0:0:ffff::2")[0], get("2001:db8:0:1::1")[0]] == [200, 429, 200]
    assert [get("::ffff:192.0.2.1")[0], get("192.0.2.1")[0]] == [200, 429]


def test_another_length_of_a_network(serve):
    get = serve(cost=2, ipv6=128)
    assert [get("2001:db8::1")[0], get("2001:db8::2")[0]] == [200, 200]


def test_key_skip_and_cost(serve):
    get = serve(key=lambda request: None if path_of(request) == "/free" else path_of(request),
                skip=lambda request: path_of(request) == "/health", cost=lambda request: len(path_of(request)))
    assert [get(path="/health")[0] for _ in range(3)] + [get(path="/free")[0] for _ in range(3)] == [200] * 6
    assert "ratelimit" not in get(path="/health")[1] and get(path="/free")[2] == "None"
    assert [get(path="/a")[0], get(path="/a")[0], get(path="/b")[0], get(path="/long")[0]] == [200, 429, 200, 429]


@pytest.mark.parametrize("headers, names", [
    ("draft-6", {"ratelimit-limit", "ratelimit-remaining", "ratelimit-reset"}),
    ("draft-7", {"ratelimit-policy", "ratelimit"}),
    ("legacy", {"x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset"}),
    ("draft-8,legacy", {"ratelimit-policy", "ratelimit", "x-ratelimit-limit", "x-ratelimit-remaining",
                        "x-ratelimit-reset"}),
    ("none", set()),
])
def test_flavours(serve, headers, names):
    assert set(serve(headers=headers, name="api")()[1]) == {"content-type", *names}


def test_a_function_answers_denials(serve):
    from starlette.responses import JSONResponse
    from werkzeug.wrappers import Response

    def denied(request, decision):
        if serve.kind is wsgi:
            return Response(f"wait {decision.retry_after}", 418)
        return JSONResponse(decision.retry_after, 418)

    get = serve(cost=2, denied=denied)
    get()
    status, headers, text = get()
    assert (status, headers["retry-after"], "12" in text) == (418, "12", True)


def test_without_a_daemon(serve):
    assert serve(DOWN, policy=["api"])()[:2] == (200, {"content-type": "text/plain"})
    status, headers, text = serve(DOWN, policy=["api"], on_error="closed")()
    assert (status, text) == (503, "the rate limiter is not available\n")
    assert set(headers) == {"content-type", "content-length"}
    with pytest.raises(weir.Unavailable):
        serve(DOWN, policy=["api"], on_error="raise")()


def test_a_function_answers_failures(serve):
    from werkzeug.wrappers import Response
    from starlette.responses import PlainTextResponse

    answer = (Response if serve.kind is wsgi else PlainTextResponse)("later", 500)
    assert serve(DOWN, policy=["api"], on_error="closed", failed=lambda request, decision: answer)()[0] == 500


def test_bad_options(serve):
    async def answer(_request, _decision=None):
        return None

    for bad in ({"ipv6": 0}, {"ipv6": 129}, {"headers": "draft-9"}, {"key": "user"}, {"skip": True}, {"denied": 1},
                *({name: answer} for name in ("key", "skip", "cost", "denied", "failed"))):
        with pytest.raises(weir.ArgumentError):
            serve(**bad)
    with pytest.raises(TypeError):
        serve(other=1)


def test_clients_without_an_address(url, clock):
    limited = wsgi(url, {"clock": clock}, cost=2)
    assert [limited("")[0], limited("")[0]] == [200, 429]


# ---- ASGI alone


def test_asgi_takes_a_limiter_with_a_file(url, clock):
    assert [asgi(url, {"clock": clock}, weir.Limiter, cost=2)()[0] for _ in range(2)] == [200, 429]
    with pytest.raises(weir.ArgumentError, match="expected an AsyncLimiter"):
        asgi(DOWN, {}, weir.Limiter, policy=["api"])


def test_websockets_and_lifespan(url, clock):
    async def app(scope, receive, send):
        await send({"type": "websocket.accept"} if scope["type"] == "websocket" else {"type": "lifespan"})

    limited = weir.middleware.ASGILimit(app, weir.AsyncLimiter(POLICY, url, clock=clock), cost=2)

    def talk(kind):
        sent = []

        async def send(message):
            sent.append(message)

        async def receive():
            return {"type": "websocket.connect"}

        asyncio.run(limited({"type": kind, "client": ["192.0.2.1", 1]}, receive, send))
        return sent

    accepted = talk("websocket")[0]
    assert accepted["type"] == "websocket.accept"
    assert (b"ratelimit", b'"limit";r=0;t=6') in accepted["headers"]
    assert talk("websocket") == [{"type": "websocket.close", "code": 1008}]
    assert talk("lifespan") == [{"type": "lifespan"}]


def test_a_queue_delays(url):
    async def app(scope, receive, send):
        seen.append(scope["weir.decision"].delay_ns)

    seen = []
    limited = weir.middleware.ASGILimit(app, weir.AsyncLimiter("leaky-queue 1000/s depth 5", url))

    async def main():
        await asyncio.gather(*(limited({"type": "http", "client": ("a", 1)}, None, None) for _ in range(3)))

    asyncio.run(main())
    assert seen[0] == 0 and 0 < seen[1] <= 1_000_000 < seen[2] <= 2_000_000


# ---- Django


@pytest.fixture
def django(url, clock):
    from django.conf import settings

    if not settings.configured:
        settings.configure(ROOT_URLCONF="middleware_test", ALLOWED_HOSTS=["*"], SECRET_KEY="x",
                           MIDDLEWARE=["weir.django.Limit"])
    from django.test import override_settings

    def make(**more):
        return override_settings(WEIR={"policy": POLICY, "url": url, "clock": clock, **more})

    return make


def view(request):
    from django.http import HttpResponse

    return HttpResponse(str(getattr(request, "weir_decision", None)))


try:
    from django.urls import re_path

    urlpatterns = [re_path("", view)]
except ImportError:
    pass


def user_of(request):
    return request.META.get("HTTP_USER")


def two(_request):
    return 2


def say(request, decision):
    from django.http import HttpResponse

    return HttpResponse("later", status=418)


def test_django(django):
    from django.test import Client

    with django(cost=2):
        client = Client()
        first, second = client.get("/"), client.get("/")
        assert (first.status_code, first["RateLimit"]) == (200, '"limit";r=0;t=6')
        assert first.content.startswith(b"Decision(allowed=True")
        assert (second.status_code, second.content, second["Retry-After"]) == (429, b"too many requests\n", "12")
        assert client.get("/", REMOTE_ADDR="192.0.2.9").status_code == 200


def test_django_with_names_of_functions(django):
    from django.test import Client

    with django(key="middleware_test.user_of", denied="middleware_test.say", cost="middleware_test.two"):
        client = Client()
        assert [client.get("/", HTTP_USER="a").status_code for _ in range(2)] == [200, 418]
        assert client.get("/").content == b"None"


def test_django_with_asyncio(django):
    from django.test import RequestFactory

    import weir.django

    async def get_response(request):
        return view(request)

    with django(cost=2):
        limit = weir.django.Limit(get_response)
        answers = [asyncio.run(limit(RequestFactory().get("/"))) for _ in range(2)]
    assert [(one.status_code, one["RateLimit"]) for one in answers] == [(200, '"limit";r=0;t=6'), (429, '"limit";r=0;t=12')]
    with django(skip=lambda request: True):
        assert asyncio.run(weir.django.Limit(get_response)(RequestFactory().get("/"))).content == b"None"


def test_django_without_a_daemon(django):
    from django.test import Client, override_settings

    with override_settings(WEIR={"policy": "api", "url": DOWN + "?on_error=closed"}):
        assert Client().get("/").status_code == 503


@pytest.mark.parametrize("more, text", [
    ({"policy": "gcra"}, "WEIR: "), ({"other": 1}, "WEIR: unknown option 'other'"), ({"ipv6": 0}, "WEIR: ipv6"),
])
def test_django_with_bad_settings(django, more, text):
    from django.core.exceptions import ImproperlyConfigured
    from django.test import override_settings

    import weir.django

    with django(**more), pytest.raises(ImproperlyConfigured, match=text):
        weir.django.Limit(view)
    with override_settings(WEIR={"policy": "x"}), pytest.raises(ImproperlyConfigured, match="expected the member 'url'"):
        weir.django.Limit(view)


# ---- slowapi


def test_slowapi(url):
    import slowapi
    import slowapi.errors
    import starlette.testclient
    from fastapi import FastAPI, Request

    import weir.limits

    app = FastAPI()
    app.state.limiter = limiter = slowapi.Limiter(lambda request: "all", storage_uri=url)
    app.add_exception_handler(slowapi.errors.RateLimitExceeded, slowapi._rate_limit_exceeded_handler)

    @app.get("/")
    @limiter.limit("2/hour")
    async def hello(request: Request):
        return "hello"

    client = starlette.testclient.TestClient(app)
    assert [client.get("/").status_code for _ in range(3)] == [200, 200, 429]
    assert type(limiter._storage) is weir.limits.WeirStorage
