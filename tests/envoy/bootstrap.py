# SPDX-License-Identifier: BSD-2-Clause
"""The configuration of Envoy for these tests: a backend that answers by itself, and for each rate limit
service listeners with the HTTP filter and the network filter. The HTTP listeners of all services have the
same routes."""

from kit.envoy import address, cluster

TYPE = "type.googleapis.com/envoy.extensions.filters."
HTTP_FILTER, NETWORK_FILTER = "envoy.filters.http.ratelimit", "envoy.filters.network.ratelimit"


def key(value, name=None):
    return {"generic_key": {"descriptor_value": value, **({"descriptor_key": name} if name else {})}}


def header(name, descriptor_key):
    return {"request_headers": {"header_name": name, "descriptor_key": descriptor_key}}


def route(path, *limits, per_route=None):
    """A route to the backend. `limits` are the rate_limits of the route, and `per_route` the settings of
    the filter for it."""
    ret = {"match": {"prefix": path}, "route": {"cluster": "backend", "rate_limits": list(limits)}}
    if per_route:
        ret["typed_per_filter_config"] = {
            HTTP_FILTER: {"@type": TYPE + "http.ratelimit.v3.RateLimitPerRoute", **per_route}}
    return ret


ROUTES = [
    route("/key", {"actions": [key("page")]}),
    route("/user", {"actions": [header("x-user", "user")]}),
    route("/address", {"actions": [{"remote_address": {}}]}),
    route("/nested", {"actions": [key("nested"), header("x-user", "user"), {"remote_address": {}}]}),
    route("/two", {"actions": [key("wide")]}, {"actions": [key("narrow"), header("x-user", "user")]}),
    route("/shadow", {"actions": [key("shadow")]}),
    route("/unlimited", {"actions": [key("unlimited")]}),
    route("/override", {"actions": [key("override", "kind")], "limit": {"dynamic_metadata": {
        "metadata_key": {"key": "weir.test", "path": [{"key": "limit"}]}}}}),
    route("/hits", per_route={"rate_limits": [{"actions": [key("hits")], "hits_addend": {"number": 3}}]}),
    route("/done", per_route={"rate_limits": [
        {"actions": [key("done")], "hits_addend": {"number": 0}},
        {"actions": [key("done")], "hits_addend": {"number": 3}, "apply_on_stream_done": True}]}),
    route("/elsewhere", {"actions": [key("page")]}, per_route={"domain": "elsewhere"}),
    route("/nowhere", {"actions": [key("page")]}, per_route={"domain": "nowhere"}),
    route("/load", {"actions": [key("load")]}),
    route("/", )]


def backend():
    """A listener that answers every request. As gRPC, the answer is a success without a message."""
    virtual_host = {"name": "all", "domains": ["*"], "routes": [
        {"match": {"prefix": "/grpc"}, "direct_response": {"status": 200},
         "response_headers_to_add": [{"header": {"key": "content-type", "value": "application/grpc"}},
                                     {"header": {"key": "grpc-status", "value": "0"}}]},
        {"match": {"prefix": "/"}, "direct_response": {"status": 200, "body": {"inline_string": "hello"}}}]}
    return manager("backend", virtual_host, [])


def manager(name, virtual_host, filters):
    """A listener with an HTTP connection manager."""
    chain = [*filters, {"name": "envoy.filters.http.router", "typed_config": {"@type": TYPE + "http.router.v3.Router"}}]
    return listener(name, [{
        "name": "envoy.filters.network.http_connection_manager", "typed_config": {
            "@type": TYPE + "network.http_connection_manager.v3.HttpConnectionManager", "stat_prefix": name,
            "codec_type": "AUTO", "generate_request_id": False, "http_filters": chain,
            "route_config": {"name": name, "virtual_hosts": [virtual_host]}}}])


def listener(name, filters):
    return {"name": name, "address": address(0), "filter_chains": [{"filters": filters}]}


def service(name, password=None):
    grpc = {"envoy_grpc": {"cluster_name": name}, "timeout": "30s"}
    if password:
        grpc["initial_metadata"] = [{"key": "authorization", "value": f"Bearer {password}"}]
    return {"transport_api_version": "V3", "grpc_service": grpc}


def tls(files):
    """The transport socket of a cluster, with the certificates of a Certificates."""
    def of(path):
        return {"filename": str(path)}

    return {"name": "envoy.transport_sockets.tls", "typed_config": {
        "@type": "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext",
        "common_tls_context": {
            "alpn_protocols": ["h2"], "validation_context": {"trusted_ca": of(files.ca)},
            "tls_certificates": [{"certificate_chain": of(files.client_cert), "private_key": of(files.client_key)}]}}}


def http_listener(kind, name, **more):
    """KIND-NAME: a listener with the HTTP filter and all routes."""
    metadata = {"name": "envoy.filters.http.set_metadata", "typed_config": {
        "@type": TYPE + "http.set_metadata.v3.Config",
        "metadata": [{"metadata_namespace": "weir.test",
                      "value": {"limit": {"requests_per_unit": 2, "unit": "DAY"}}}]}}
    limit = {"name": HTTP_FILTER, "typed_config": {
        "@type": TYPE + "http.ratelimit.v3.RateLimit", "domain": "edge", "timeout": "30s",
        "enable_x_ratelimit_headers": "DRAFT_VERSION_03", "rate_limited_as_resource_exhausted": True,
        "rate_limit_service": service(name), **more}}
    virtual_host = {"name": "all", "domains": ["*"], "routes": [
        {**one, "match": {**one["match"], "prefix": prefix + one["match"]["prefix"]}} for prefix in ("/grpc", "")
        for one in ROUTES]}
    return manager(f"{kind}-{name}", virtual_host, [metadata, limit])


def network_listener(name):
    """network-NAME: a TCP proxy with the network filter."""
    return listener(f"network-{name}", [
        {"name": NETWORK_FILTER, "typed_config": {
            "@type": TYPE + "network.ratelimit.v3.RateLimit", "stat_prefix": name, "domain": "network",
            "descriptors": [{"entries": [{"key": "listener", "value": "tcp"}]}], "timeout": "30s",
            "rate_limit_service": service(name)}},
        {"name": "envoy.filters.network.tcp_proxy", "typed_config": {
            "@type": TYPE + "network.tcp_proxy.v3.TcpProxy", "stat_prefix": "tcp", "cluster": "backend"}}])


def listeners(services):
    """All listeners for services: name -> port."""
    ret = [backend()]
    for name in services:
        ret += [http_listener("open", name), http_listener("deny", name, failure_mode_deny=True),
                network_listener(name)]
    return ret


def clusters(services, backend_port):
    return [cluster("backend", backend_port), *(cluster(name, port, True) for name, port in services.items())]


LIMITS = """
domain: edge
descriptors:
  - key: generic_key
    value: page
    rate_limit: {unit: day, requests_per_unit: 4}
  - key: user
    rate_limit: {unit: day, requests_per_unit: 2}
  - key: user
    value: vip*
    rate_limit: {unit: week, requests_per_unit: 5}
  - key: remote_address
    rate_limit: {unit: day, requests_per_unit: 3}
  - key: generic_key
    value: nested
    descriptors:
      - key: user
        descriptors:
          - key: remote_address
            rate_limit: {unit: week, requests_per_unit: 2}
  - key: generic_key
    value: wide
    rate_limit: {unit: day, requests_per_unit: 5, name: wide}
  - key: generic_key
    value: narrow
    descriptors:
      - key: user
        rate_limit: {unit: day, requests_per_unit: 2, name: narrow}
  - key: generic_key
    value: shadow
    shadow_mode: true
    rate_limit: {unit: day, requests_per_unit: 1}
  - key: generic_key
    value: unlimited
    rate_limit: {unlimited: true}
  - key: generic_key
    value: hits
    rate_limit: {unit: day, requests_per_unit: 8}
  - key: generic_key
    value: done
    rate_limit: {unit: day, requests_per_unit: 7}
  - key: generic_key
    value: load
    rate_limit: {unit: week, requests_per_unit: 500}
"""

FILES = {
    "edge.yaml": LIMITS,
    "elsewhere.yaml": "domain: elsewhere\ndescriptors:\n  - key: generic_key\n    value: page\n"
                      "    rate_limit: {unit: day, requests_per_unit: 1}\n",
    "network.yaml": "domain: network\ndescriptors:\n  - key: listener\n    value: tcp\n"
                    "    rate_limit: {unit: day, requests_per_unit: 3}\n"}
