# SPDX-License-Identifier: BSD-2-Clause
"""The chart packaging/helm/weir and the manifests of packaging/kubernetes: rendered by helm in all modes, checked with
the schemas of Kubernetes and against the restricted Pod Security Standard; and their weir.yaml, by weir itself.
helm is built from its Go sources, once."""

import filecmp
import functools
import json
import os
import pathlib
import subprocess
import sys

import yaml

from kit.http import fetch
from kit.install import once, recent_go, run
from kit.process import HOST, ROOT, Skipped, equal, expect, free_port
from kit.weir import Serving

CHART = ROOT / "packaging/helm/weir"
MANIFESTS = ROOT / "packaging/kubernetes"
HELM = "helm.sh/helm/v3/cmd/helm@v3.19.0"
VERSION = "1.31.0"  # of Kubernetes
PASSWORD = ["--set", "password.secret=weir"]
REDIS = [*PASSWORD, "--set", "config.engine=redis", "--set", "config.redis.url=redis://redis:6379", "--set", "replicas=3"]
# The arguments of helm for each mode, with everything that is optional.
MODES = {
    "deployment": PASSWORD,
    "deployment with redis": REDIS,
    "statefulset": [*PASSWORD, "--set", "mode=statefulset", "--set", "state.storageClass=fast", "--set", "replicas=2"],
    "insecure": ["--set", "insecure=true", "--set", "networkPolicy.enabled=true", "--set", "serviceMonitor.enabled=true"],
    "envoy": [*PASSWORD, "--set", "ports.grpc=8081", "--set", "ports.resp=0", "--set-json", 'envoyLimits={"a.yaml":{"domain":"a"}}'],
    "everything": [*PASSWORD, "--set", "networkPolicy.enabled=true", "--set", "serviceMonitor.enabled=true",
                   "--set", "restartOnChange=true", "--set-json", 'podSpec={"nodeSelector":{"disk":"ssd"}}',
                   "--set-json", 'podAnnotations={"a":"b"}', "--set-json", 'podLabels={"c":"d"}',
                   "--set-json", 'image.pullSecrets=["pull"]', "--set-json", 'config.tls={"cert":"/tls/tls.crt","key":"/tls/tls.key"}',
                   "--set-json", 'volumes=[{"name":"tls","secret":{"secretName":"weir-tls"}}]',
                   "--set-json", 'volumeMounts=[{"name":"tls","mountPath":"/tls"}]',
                   "--set-json", 'env=[{"name":"REGION","value":"eu"}]',
                   "--set-json", 'networkPolicy.from=[{"podSelector":{"matchLabels":{"app":"web"}}}]',
                   "--set-json", 'service.annotations={"e":"f"}', "--set-json", 'serviceMonitor.labels={"g":"h"}'],
    "sidecar": ["--set", "mode=sidecar"],
}


def skip(why):
    print(f"skipped: 1 in kubernetes: {why}")  # for tools/gate
    raise Skipped(why)


@functools.lru_cache
def programs(build):
    """helm, and kubernetes-validate with its schemas."""
    place = build / "kubernetes"
    place.mkdir(parents=True, exist_ok=True)
    try:
        (place / "version").write_text(HELM)
        once(place, "version", lambda: run([recent_go(place), "install", "-trimpath", "-ldflags=-s -w", HELM], place, Skipped,
                                           env={**os.environ, "GOBIN": str(place)}))
        venv = place / "venv"
        (venv / "requirements.txt").parent.mkdir(exist_ok=True)
        requirements = pathlib.Path(__file__).with_name("requirements.txt")
        (venv / "requirements.txt").write_text(requirements.read_text())
        once(venv, "requirements.txt", lambda: (run([sys.executable, "-m", "venv", venv], place, Skipped), run(
            [venv / "bin/pip", "install", "--quiet", "--disable-pip-version-check", "-r", requirements], place, Skipped)))
    except Skipped as why:
        skip(why)
    return place / "helm", venv / "bin/kubernetes-validate"


def helm(box, *arguments):
    words = [programs(box.weir.parent)[0], *arguments]
    return subprocess.run([str(word) for word in words], check=False, capture_output=True, text=True, timeout=60)


def rendered(box, arguments, namespace="default", release="weir"):
    done = helm(box, "template", release, CHART, "--kube-version", VERSION, "--namespace", namespace, *arguments)
    equal(done.returncode, 0, f"helm template {arguments}: {done.stderr}")
    return [document for document in yaml.safe_load_all(done.stdout) if document]


def manifests(name):
    return [document for document in yaml.safe_load_all((MANIFESTS / name).read_text()) if document]


def one(documents, kind):
    found = [document for document in documents if document["kind"] == kind]
    equal(len(found), 1, kind)
    return found[0]


def pod_of(documents):
    return next(d["spec"]["template"] for d in documents if d["kind"] in ("Deployment", "StatefulSet"))


def weir_of(documents):
    """The container of weir."""
    spec = pod_of(documents)["spec"]
    return next(c for c in [*spec["containers"], *spec.get("initContainers", [])] if c["name"] == "weir")


def weir_yaml(documents):
    return one(documents, "ConfigMap")["data"]["weir.yaml"]


def check(box, documents):
    """`weir check` of the ConfigMap as a pod mounts it."""
    mount = box.path / box.name("mount")
    data = one(documents, "ConfigMap")["data"]
    for key, text in data.items():
        file = mount / ("weir.yaml" if key == "weir.yaml" else f"envoy/{key}")
        file.parent.mkdir(parents=True, exist_ok=True)
        for found, place in (("/etc/weir/", f"{mount}/"), ("/tls/tls.crt", box.tls().cert), ("/tls/tls.key", box.tls().key)):
            text = text.replace(found, str(place))
        file.write_text(text)
    return subprocess.run([box.weir, "check", "--syntax", mount / "weir.yaml"], check=False, capture_output=True, text=True,
                          env={**os.environ, "WEIR_PASSWORD": "s3cret"})


def check_pod(what, pod):
    """The restricted Pod Security Standard, and what weir's own containers have beyond it."""
    spec = pod["spec"]
    for field in ("hostNetwork", "hostPID", "hostIPC"):
        expect(field not in spec, f"{what}: {field}")
    equal({next(iter(set(volume) - {"name"})) for volume in spec["volumes"]} - {"configMap", "secret"}, set(), f"{what}: volumes")
    for container in [*spec["containers"], *spec.get("initContainers", [])]:
        security = container["securityContext"]
        equal((security["runAsNonRoot"], security["allowPrivilegeEscalation"], security["capabilities"], security["seccompProfile"]),
              (True, False, {"drop": ["ALL"]}, {"type": "RuntimeDefault"}), f"{what}: restricted")
        if container["name"] == "weir":
            equal((security["readOnlyRootFilesystem"], security["runAsUser"], security["runAsGroup"]), (True, 65532, 65532), what)
            expect({"requests", "limits"} == set(container["resources"]), f"{what}: resources")
    equal(spec["automountServiceAccountToken"], False, f"{what}: no token")


def check_manifests(box, what, documents):
    """The schemas of Kubernetes, without kinds of others. One file each: the validator stops at a first error."""
    files = []
    for number, document in enumerate(d for d in documents if d["kind"] != "ServiceMonitor"):
        files.append(box.path / f"{box.name('manifest')}-{number}.json")
        files[-1].write_text(json.dumps(document))
    done = subprocess.run([programs(box.weir.parent)[1], "-k", VERSION, "--strict", *files], check=False, capture_output=True, text=True)
    equal(done.returncode, 0, f"{what}: {done.stdout}{done.stderr}")


# ---- tests ---------------------------------------------------------------------------------------


def all_modes(box):
    for mode, arguments in MODES.items():
        done = helm(box, "lint", "--strict", CHART, "--kube-version", VERSION, *arguments)
        equal(done.returncode, 0, f"{mode}: helm lint: {done.stdout}{done.stderr}")
        documents = rendered(box, arguments)
        check_manifests(box, mode, documents)
        valid = check(box, documents)
        equal(valid.returncode, 0, f"{mode}: weir check: {valid.stderr}{weir_yaml(documents)}")
        if mode != "sidecar":
            check_pod(mode, pod_of(documents))
    equal([d["kind"] for d in documents], ["ConfigMap"], "the sidecar mode")
    wrong = rendered(box, [*PASSWORD, "--set", "ports.grpc=8081", "--set-json", 'envoyLimits={"a.yaml":{"domain":7}}'])
    expect("a.yaml" in check(box, wrong).stderr, "wrong limits for Envoy")


def kinds_and_names(box):
    def kinds(mode):
        return sorted((d["kind"], d["metadata"]["name"]) for d in rendered(box, MODES[mode]))

    common = [("ConfigMap", "weir"), ("PodDisruptionBudget", "weir"), ("Service", "weir")]
    equal(kinds("deployment"), sorted([*common, ("Deployment", "weir")]), "deployment")
    equal(kinds("statefulset"), sorted([*common, ("Service", "weir-pods"), ("StatefulSet", "weir")]), "statefulset")
    equal(kinds("everything"), sorted([*common, ("Deployment", "weir"), ("NetworkPolicy", "weir"), ("ServiceMonitor", "weir")]), "all")
    equal([d["metadata"]["name"] for d in rendered(box, PASSWORD, release="limits")][0], "limits-weir", "a name")


def probes_and_stop(box):
    documents = rendered(box, [*PASSWORD, "--set", "stop.grace=20", "--set", "stop.drain=15"])
    pod, weir = pod_of(documents)["spec"], weir_of(documents)
    equal(pod["terminationGracePeriodSeconds"], 45, "grace and drain, and 10 s")
    equal(yaml.safe_load(weir_yaml(documents))["limits"], {"grace": "20s", "drain": "15s"}, "weir.yaml")
    paths = {name: weir[name]["httpGet"]["path"] for name in ("startupProbe", "livenessProbe", "readinessProbe")}
    equal(paths, {"startupProbe": "/healthz", "livenessProbe": "/healthz", "readinessProbe": "/readyz"}, "probes")
    equal(weir["env"][0]["valueFrom"]["secretKeyRef"], {"name": "weir", "key": "password"}, "the password")
    every = rendered(box, MODES["everything"])
    equal({weir_of(every)[name]["httpGet"]["scheme"] for name in paths}, {"HTTPS"}, "probes with TLS")
    monitor = one(every, "ServiceMonitor")
    equal((monitor["spec"]["endpoints"][0]["scheme"], monitor["spec"]["endpoints"][0]["authorization"]["credentials"]),
          ("https", {"name": "weir", "key": "password"}), "the ServiceMonitor")
    expect("checksum/config" in pod_of(every)["metadata"]["annotations"], "restartOnChange")
    expect("annotations" not in pod_of(documents)["metadata"], "weir reads a changed ConfigMap by itself")
    changed = rendered(box, [*MODES["everything"], "--set", "config.policies.b=gcra 2/s"])
    expect(pod_of(every)["metadata"]["annotations"] != pod_of(changed)["metadata"]["annotations"], "the checksum follows config")
    claim = one(rendered(box, MODES["statefulset"]), "StatefulSet")["spec"]["volumeClaimTemplates"][0]["spec"]
    equal((claim["storageClassName"], claim["resources"]), ("fast", {"requests": {"storage": "1Gi"}}), "the volume")


# Says of each ServiceMonitor whether it is valid. The model ignores unknown fields, so they are missing in its dump.
VALIDATE = """import json, sys
from cloudcoil.models.prometheus_operator.v1 import ServiceMonitor
from pydantic import ValidationError
def is_valid(monitor):
    try:
        read = ServiceMonitor.model_validate(monitor)
    except ValidationError:
        return False
    return read.model_dump(mode="json", by_alias=True, exclude_unset=True) == monitor
print(json.dumps([is_valid(monitor) for monitor in json.load(sys.stdin)]))"""


def monitors(box):
    """By the types of the Prometheus operator, with unknown fields and wrong values as the counter-check."""
    valid = [one(rendered(box, MODES[mode]), "ServiceMonitor") for mode in ("insecure", "everything")]
    endpoint = valid[0]["spec"]["endpoints"][0]
    wrong = [{**valid[0], "spec": {**valid[0]["spec"], "endpoints": [{**endpoint, **change}]}}
             for change in ({"paths": "/metrics"}, {"interval": "1x"}, {"port": 80})]
    done = subprocess.run([programs(box.weir.parent)[1].with_name("python"), "-c", VALIDATE], check=False, text=True,
                          capture_output=True, input=json.dumps(valid + wrong))
    equal(done.stdout, "[true, true, false, false, false]\n", f"the ServiceMonitors: {done.stderr}")


# Arguments that helm refuses, and what the error says.
REFUSED = (
    ([], "password.secret: expected the name of a Secret, or insecure: true"),
    ([*PASSWORD, "--set", "insecure=true"], "insecure: true: expected no password.secret"),
    (["--set", "mode=sidecar", "--set", "insecure=true"], "expected false in the mode sidecar"),
    ([*PASSWORD, "--set", "replicas=2"], "replicas: expected 1, found 2"),
    ([*PASSWORD, "--set", "config.limits.grace=9s"], "config.limits.grace: expected stop.grace instead"),
    ([*PASSWORD, "--set", "config.limits.drain=9s"], "config.limits.drain: expected stop.drain instead"),
    ([*PASSWORD, "--set", "config.password=x"], "config.password: expected the value password.secret"),
    ([*PASSWORD, "--set", "config.password_file=x"], "config.password_file: expected the value password.secret"),
    ([*PASSWORD, "--set", "config.insecure=true"], "config.insecure: expected the value password.secret"),
    ([*PASSWORD, "--set-json", 'envoyLimits={"a.yaml":{"domain":"a"}}'], "ports.grpc: expected a port"),
    ([*PASSWORD, "--set", "mode=daemonset"], "mode"),
    ([*PASSWORD, "--set", "ports.http=0"], "http"),
    ([*PASSWORD, "--set", "ports.resp=65536"], "resp"),
    ([*PASSWORD, "--set", "replica=2"], "replica"),
    ([*PASSWORD, "--set", "state.size=1GB"], "size"),
    ([*PASSWORD, "--set-json", 'envoyLimits={"a.txt":{"domain":"a"}}'], "a.txt"),
)


def refused_values(box):
    for arguments, error in REFUSED:
        done = helm(box, "template", "weir", CHART, "--kube-version", VERSION, *arguments)
        expect(done.returncode != 0 and error in done.stderr, f"{arguments}: expected {error!r}, found {done.stdout[:200]}{done.stderr}")


# Values of config that weir refuses, and where.
BROKEN = (("config.policies.api=gcra 100/x", "policies.api"), ("config.polices.api=gcra 1/s", "unknown key 'polices'"),
          ("config.memory.size=12", "memory.size"), ("config.engine=redis", "redis"))


def broken_configurations(box):
    for value, error in BROKEN:
        found = check(box, rendered(box, [*PASSWORD, "--set", value]))
        expect(found.returncode == 1 and error in found.stderr, f"{value}: expected {error!r}, found {found.stderr}")


def serves_its_configuration(box):
    """Without a password, the names of the Service are accepted as Host, and no others."""
    port = free_port()
    daemon = Serving(box)
    daemon.config.write_text(weir_yaml(rendered(box, ["--set", "insecure=true", "--set", f"ports.http={port}", "--set", "ports.resp=0",
                                                      "--set", "config.policies.api=gcra 1/d burst 5"], "web")))
    daemon.serve()
    take = "/v1/take?policy=api&key=alice"
    for host in ("weir", "weir.web", "weir.web.svc", "weir.web.svc.cluster.local", HOST):
        equal(fetch(port, take, host=host).status, 200, host)
    equal(fetch(port, take, host="weir.other.svc").status, 421, "another name")


def plain_manifests(box):
    """The manifests are what tools/kubernetes writes, and are valid."""
    program = programs(box.weir.parent)[0]
    subprocess.run([ROOT / "tools/kubernetes", box.path], check=True, env={**os.environ, "HELM": str(program)}, timeout=60)
    names = sorted(file.name for file in box.path.glob("*.yaml"))
    equal(names, sorted(f.name for f in MANIFESTS.glob("*.yaml") if ".values." not in f.name), "the files")
    equal(names, ["envoy.yaml", "redis.yaml", "sidecar.yaml", "statefulset.yaml"], "the files")
    for name in names:
        expect(filecmp.cmp(box.path / name, MANIFESTS / name, shallow=False), f"{name}: run tools/kubernetes")
        documents = manifests(name)
        check_manifests(box, name, documents)
        check_pod(name, pod_of(documents))
        valid = check(box, documents)
        equal(valid.returncode, 0, f"{name}: {valid.stderr}")
    equal(pod_of(manifests("envoy.yaml"))["spec"]["volumes"][0]["configMap"]["items"],
          [{"key": "weir.yaml", "path": "weir.yaml"}, {"key": "shop.yaml", "path": "envoy/shop.yaml"}], "the mount")
    sidecar = manifests("sidecar.yaml")
    equal(weir_of(sidecar)["restartPolicy"], "Always", "the sidecar runs as long as the pod")
    equal(weir_of(sidecar)["startupProbe"]["exec"]["command"], ["/usr/bin/weir", "ping", "--server", "6380"], "its probe")


TESTS = (all_modes, kinds_and_names, probes_and_stop, monitors, refused_values, broken_configurations, serves_its_configuration,
         plain_manifests)
