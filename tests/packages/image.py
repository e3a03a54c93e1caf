# SPDX-License-Identifier: BSD-2-Clause
"""The image: the same bytes at each build, what buildah and skopeo read in it, and weir in a container of runc: with a
read-only root, as the user of the image, and with all that Kubernetes does to it."""

import contextlib
import filecmp
import functools
import json
import os
import shutil
import socket
import subprocess
import tarfile

from kit.http import fetch
from kit.process import HOST, ROOT, Failed, Process, Skipped, equal, expect, free_port, until
from kit.resp import Client

USER = 65532
PASSWORD = "s3cret"
BEARER = {"Authorization": f"Bearer {PASSWORD}"}
LIMIT_MB = 10  # a guard against a library that nobody meant to add


def call(*words, status=0):
    done = subprocess.run([str(word) for word in words], check=False, capture_output=True, text=True, timeout=120)
    expect(done.returncode == status, f"{words}: status {done.returncode}: {done.stdout}{done.stderr}")
    return done.stdout


def skip(why):
    print(f"skipped: 1 in image: {why}")  # for tools/gate
    raise Skipped(why)


def need(*tools):
    for tool in tools:
        if not shutil.which(tool):
            skip(f"{tool} is not installed; tools/deps image installs it")
    if os.getuid() != 0:
        skip("expected root")


@functools.lru_cache
def built(build):
    """Builds the image, and returns its archive."""
    return call(ROOT / "tools/image", build).split("\n")[0]


def unpack(archive, target):
    """Unpacks the only layer of an archive. Returns the configuration of the image."""
    with tarfile.open(archive) as opened:
        manifest = json.load(opened.extractfile("manifest.json"))[0]
        equal(len(manifest["Layers"]), 1, "layers")
        with tarfile.open(fileobj=opened.extractfile(manifest["Layers"][0])) as layer:
            layer.extractall(target, numeric_owner=True)
        return json.load(opened.extractfile(manifest["Config"]))["config"]


class Container(Process):
    """`weir serve` in a container of runc, on the network of this machine."""

    def __init__(self, box, arguments=("/etc/weir/weir.yaml",), mounts=(), env=(f"WEIR_PASSWORD={PASSWORD}",)):
        super().__init__(box, box.name("container"))
        need("runc")
        self.bundle = box.path / self.name
        self.root = self.bundle / "rootfs"
        self.root.mkdir(parents=True)
        self.image = unpack(built(box.weir.parent), self.root)
        self.runc = ["runc", "--root", box.path / "runc"]
        call("runc", "spec", "--bundle", self.bundle)
        file = self.bundle / "config.json"
        spec = json.loads(file.read_text())
        user, group = (int(part) for part in self.image["User"].split(":"))
        spec["process"].update(
            args=[*self.image["Entrypoint"], "serve", *arguments], cwd=self.image["WorkingDir"], terminal=False,
            env=[*self.image["Env"], *env], user={"uid": user, "gid": group}, capabilities={}, noNewPrivileges=True)
        spec["root"] = {"path": "rootfs", "readonly": True}
        spec["linux"]["namespaces"] = [n for n in spec["linux"]["namespaces"] if n["type"] != "network"]
        spec["mounts"] = [m for m in spec["mounts"] if m["destination"] in ("/proc", "/dev")]
        spec["mounts"] += [{"destination": place, "source": str(path), "type": "bind", "options": ["bind", mode]}
                           for place, path, mode in mounts]
        file.write_text(json.dumps(spec))

    def run(self):
        self.spawn([*self.runc, "run", "--bundle", self.bundle, self.name])
        return self

    def started(self):
        until(lambda: " info started " in self.log_text() or not self.is_running(), "weir starts in the container")
        if not self.is_running() and "runc" in self.log_text():
            skip(f"runc does not run here: {self.tail(3)}")
        expect(self.is_running(), self.tail())
        return self

    def inside(self, *words, status=0):
        return call(*self.runc, "exec", self.name, *words, status=status)

    def stop(self):
        """Stops it as Kubernetes does. Returns the exit status."""
        call(*self.runc, "kill", self.name, self.image["StopSignal"])
        return self.process.wait(60)

    def kill(self):
        if self.process:  # the container may live longer than runc
            subprocess.run([*self.runc, "delete", "--force", self.name], check=False, capture_output=True)
        super().kill()


def volume(box, name):
    path = box.path / name
    path.mkdir()
    os.chown(path, USER, USER)
    return path


# ---- the archive ---------------------------------------------------------------------------------


def same_bytes_at_each_build(box):
    """The bytes do not depend on the time or on the directory."""
    other = box.path / "elsewhere"
    other.mkdir()
    shutil.copy(box.weir, other / "weir")
    expect(filecmp.cmp(built(box.weir.parent), built(other), shallow=False), "two builds have the same bytes")


def image_tools_read_it(box):
    need("skopeo", "buildah")
    archive = built(box.weir.parent)
    version = call(box.weir, "version").split()[1]
    for transport in ("oci-archive", "docker-archive"):
        found = json.loads(call("skopeo", "inspect", "--config", f"{transport}:{archive}"))
        config = found["config"]
        equal((found["os"], found["architecture"]), ("linux", os.uname().machine.replace("x86_64", "amd64").replace("aarch64", "arm64")),
              transport)
        equal((config["User"], config["Entrypoint"], config["Cmd"]),
              (f"{USER}:{USER}", ["/usr/bin/weir"], ["serve", "/etc/weir/weir.yaml"]), transport)
        equal((set(config["ExposedPorts"]), set(config["Volumes"]), config["StopSignal"]),
              ({"6380/tcp", "8080/tcp"}, {"/var/lib/weir"}, "SIGTERM"), transport)
        labels = {name.removeprefix("org.opencontainers.image."): text for name, text in config["Labels"].items()}
        equal((labels["title"], labels["version"], labels["licenses"]), ("weir", version, "BSD-2-Clause"), transport)
        equal(labels["created"], found["created"], transport)
    target = box.path / "copy"
    call("skopeo", "copy", "--quiet", f"oci-archive:{archive}", f"oci:{target}:weir")
    expect((target / "index.json").exists(), "skopeo copies it")
    store = ["buildah", "--root", box.path / "store", "--runroot", box.path / "run", "--storage-driver", "vfs"]
    name = call(*store, "from", "--quiet", f"oci-archive:{archive}").split()[-1]
    docker = json.loads(call(*store, "inspect", name))["Docker"]["config"]
    equal(docker["Healthcheck"]["Test"], ["CMD", "/usr/bin/weir", "ping"], "the health check")
    isolated = [*store, "run", "--isolation", "chroot", name, "--"]
    equal(call(*isolated, "/usr/bin/weir", "version"), f"weir {version}\n", "in a container of buildah")
    call(*store, "rm", name)


def only_what_weir_needs(box):
    archive = built(box.weir.parent)
    expect(os.path.getsize(archive) < LIMIT_MB * 10**6, f"the archive has at most {LIMIT_MB} MB")
    unpack(archive, box.path / "root")
    root = box.path / "root"
    files = [file for file in root.rglob("*") if file.is_file() and not file.is_symlink()]
    equal([file.name for file in files if file.parent == root / "usr/bin"], ["weir"], "programs")
    loaders = {file for file in files if file.name.startswith("ld-linux")}
    programs = {file for file in files if file.stat().st_mode & 0o111}
    equal({file.suffix for file in programs - loaders if ".so" not in file.name}, {""}, "executable files")
    equal([file.name for file in programs if ".so" not in file.name], ["weir"], "no shell")
    equal([file for file in files if file.stat().st_mode & 0o6022], [], "files with set-user-ID or that others can write")
    expect(b".debug_info" not in (root / "usr/bin/weir").read_bytes(), "the program is stripped")
    equal({file.stat().st_uid for file in files}, {0}, "the owner of all files")
    state = (root / "var/lib/weir").stat()
    equal((state.st_uid, state.st_gid, state.st_mode & 0o777), (USER, USER, 0o750), "the directory of the state")
    equal(os.readlink(root / "usr/lib/ssl/cert.pem"), "/etc/ssl/certs/ca-certificates.crt", "where OpenSSL looks")
    expect(b"BEGIN CERTIFICATE" in (root / "etc/ssl/certs/ca-certificates.crt").read_bytes(), "certificate authorities")
    status = root / "var/lib/dpkg/status.d"
    libraries = {"libc6", "libssl3", "libuv1", "libnghttp2-14"} if (status / "libssl3").exists() else {"libc6"}
    for package in libraries:
        expect(f"Package: {package}\n" in (status / package).read_text(), f"the entry of {package}")
        expect((root / "usr/share/doc" / package / "copyright").exists(), f"the license of {package}")


# ---- in a container ------------------------------------------------------------------------------


def default_configuration(box):
    """The configuration of the image: a password, a state that a restart keeps, and a health check."""
    resp, http, state = free_port(), free_port(), volume(box, "state")
    where = ["/etc/weir/weir.yaml", "--port", str(resp), "--http", str(http)]

    def serving():
        env = [f"WEIR_PASSWORD={PASSWORD}", f"WEIR_SERVER={resp}"]
        return Container(box, where, [("/var/lib/weir", state, "rw")], env).run().started()

    first = serving()
    equal(first.inside(*first.image["Healthcheck"]["Test"][1:]), "PONG\n", "the health check")
    equal(first.inside("/usr/bin/weir", "take", "login", "alice").split()[:2], ["allowed", "4"], "over RESP")
    taken = fetch(http, "/v1/take?policy=login&key=alice", headers=BEARER).json()
    equal((taken["allowed"], taken["remaining"]), (True, 3), "over HTTP")
    equal(fetch(http, "/v1/take?policy=login&key=alice").status, 401, "without the password")
    berlin = first.inside("/usr/bin/weir", "policy", "fixed-window 1/day tz Europe/Berlin")
    expect("Europe/Berlin" in berlin, "time zones")
    first.inside("/usr/bin/weir", "policy", "fixed-window 1/day tz Mars/Olympus", status=2)
    first.inside("/bin/sh", status=255)
    with open(f"/proc/{weir_process(first)}/status", encoding="ascii") as status:
        found = dict(line.rstrip("\n").split(":\t", 1) for line in status)
    equal((found["Uid"].split(), found["CapEff"].strip("0"), found["NoNewPrivs"]), ([str(USER)] * 4, "", "1"), "rights")
    equal(first.stop(), 0, "the exit status")
    second = serving()
    equal(fetch(http, "/v1/take?policy=login&key=alice", headers=BEARER).json()["remaining"], 2, "after a restart")
    second.kill()


def weir_process(container):
    state = json.loads(call(*container.runc, "state", container.name))
    return state["pid"]


def refuses_to_start_without_a_password(box):
    container = Container(box, env=()).run()
    until(lambda: not container.is_running(), "it ends")
    if "WEIR_PASSWORD" not in container.log_text() and "runc" in container.log_text():
        skip(f"runc does not run here: {container.tail(3)}")
    equal(container.process.returncode, 1, "the exit status")
    expect("/etc/weir/weir.yaml:4:" in container.log_text() and "WEIR_PASSWORD" in container.log_text(),
           f"the error names the variable and its line: {container.log_text()}")


class ConfigMap:
    """A directory like the mount of a ConfigMap: weir.yaml -> ..data/weir.yaml, ..data -> a directory that is replaced."""

    def __init__(self, box):
        self.path, self.count = box.path / "config", 0
        self.path.mkdir()
        os.symlink("..data/weir.yaml", self.path / "weir.yaml")

    def swap(self, text):
        self.count += 1
        version = self.path / f"..{self.count}"
        version.mkdir()
        (version / "weir.yaml").write_text(text)
        os.symlink(version.name, self.path / "..data_tmp")
        os.rename(self.path / "..data_tmp", self.path / "..data")
        return self


def config_map_and_stop(box):
    """A changed ConfigMap is seen without a signal. After SIGTERM, weir serves for limits.grace, and then ends."""
    resp, http = free_port(), free_port()
    text = (f"listen: {{resp: 0.0.0.0:{resp}, http: 0.0.0.0:{http}}}\npassword: ${{WEIR_PASSWORD}}\nmemory: {{size: 16m}}\n"
            "limits: {grace: 2s, drain: 1s}\npolicies: {api: fixed-window %d/10000d}\n")
    config = ConfigMap(box).swap(text % 3)
    container = Container(box, mounts=[("/etc/weir", config.path, "ro")]).run().started()
    take = "/v1/take?policy=api&key=alice"
    equal(fetch(http, take, headers=BEARER).json()["remaining"], 2, "the first limit")
    config.swap(text % 10)
    until(lambda: " reloaded " in container.log_text(), "the change is seen")
    equal(fetch(http, take, headers=BEARER).json()["remaining"], 8, "the changed limit, without what was used")
    config.swap("policies: {api: nonsense}")
    until(lambda: " reload-refused " in container.log_text(), "the error is seen")
    equal(fetch(http, take, headers=BEARER).json()["remaining"], 7, "the last valid limit")
    equal(fetch(http, "/readyz").status, 200, "ready")
    with contextlib.closing(Client(resp, PASSWORD)) as client:
        call(*container.runc, "kill", container.name, container.image["StopSignal"])
        until(lambda: fetch(http, "/readyz").status == 503, "not ready after SIGTERM")
        equal(client.call("PING"), "PONG", "an open connection")
        equal(fetch(http, take, headers=BEARER).json()["remaining"], 6, "a new connection during the grace time")
    equal(container.process.wait(60), 0, "the exit status")
    with contextlib.suppress(ConnectionRefusedError), socket.create_connection((HOST, http)):
        raise Failed("the listener is closed")


TESTS = (same_bytes_at_each_build, image_tools_read_it, only_what_weir_needs, default_configuration,
         refuses_to_start_without_a_password, config_map_and_stop)
