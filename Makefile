# SPDX-License-Identifier: BSD-2-Clause
# Short commands for everyday work. meson.build defines the build, and everything is built in build/.
.DEFAULT_GOAL := all
SHELL := /bin/bash
.SHELLFLAGS := -o pipefail -c
.PHONY: all shipped nginx-module deb image image-arm64 manifests run sim soak bench bench-lib bench-daemon bench-redis bench-nginx bench-envoy bench-haproxy bench-replay bench-web bench-clients instructions check claims redis nginx clients envoy haproxy proxies image-check browser asan tsan fuzz coverage mutants proof model aarch64 wasm web site figures dist clients-dist lint layers fmt vectors distros install uninstall clean help

PORT ?= 6380
HTTP ?= 8080
PREFIX ?= /usr/local
# These are environment variables, because the functions of make split a name at its spaces.
all install uninstall build/build.ninja: export PREFIX := $(PREFIX)
install uninstall: export DESTDIR := $(DESTDIR)
FUZZ_SECONDS ?= 20
SECONDS ?= 600
SEEDS ?= 5000
KILLS ?= 1000000
FIRST ?= 1

help:            ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /  make \1\t/p' Makefile

all: shipped      ## build build/weir, libweir and libweir-redis (.a and .so), and the Redis module weir.so
	@echo 'built: build/weir is the program; "make run" starts it, "make install" copies it to '"$$PREFIX/bin"

shipped: build/build.ninja
	@if [ -t 1 ] && ! ninja -C build -n shipped | grep -q 'no work to do'; then ninja -C build shipped; \
	    else ninja -C build --quiet shipped | sed '/no work to do/d'; fi

build/build.ninja:
	@tools/deps
	@tools/configure build --prefix "$$(realpath -ms -- "$$PREFIX")"

nginx-module: export NGINX := $(NGINX)
nginx-module:    ## build the nginx module, for Debian's nginx or for one built from NGINX=DIR
	@dir=build$${NGINX:+/nginx-source} && tools/nginx-module "$$dir" $${NGINX:+"$$NGINX"} && \
	    echo "built: $$dir/ngx_http_weir_module.so; docs/nginx.md says how to load it"

deb:             ## build the Debian packages: build/deb/weir_*.deb and others
	@tools/deps deb
	@tools/deb build

image: shipped   ## build a container image: build/image/weir-VERSION-ARCHITECTURE.tar
	@tools/deps image
	@tools/image build

image-arm64:     ## build the image for arm64, with a cross compiler
	@tools/deps image aarch64
	@tools/aarch64-root build/aarch64-root
	@tools/configure build/arm64 --cross-file build/aarch64-root/cross.ini
	@ninja -C build/arm64 --quiet weir && tools/image build/arm64 build/aarch64-root

manifests:       ## render the chart into packaging/kubernetes/*.yaml, with `helm`
	@tools/kubernetes

run:             ## build weir, and start the daemon with examples/weir.yaml (PORT=6380, HTTP=8080)
	@tools/run $(PORT) $(HTTP)

bench: bench-lib bench-daemon bench-redis bench-nginx bench-envoy bench-haproxy bench-replay bench-web ## run all eight benchmarks; the results are in build/bench.json

bench-lib: shipped ## benchmark the library: decisions a second, compared with a bare loop
	@tools/deps check bench
	@bench/run lib

bench-daemon: shipped ## benchmark the daemon, compared with redis-server and nginx; less than 8 minutes
	@tools/deps check bench
	@bench/run daemon

bench-redis: shipped ## benchmark state in Redis: module, functions, daemon and hybrid, compared with Redis commands
	@tools/deps check bench
	@bench/run redis

bench-nginx: shipped ## benchmark the nginx module, compared with limit_req and with no limiter; 5 minutes
	@tools/deps check bench
	@bench/run nginx

bench-envoy: shipped ## benchmark the rate limit service of Envoy, compared with envoyproxy/ratelimit; needs the network once
	@tools/deps check bench envoy
	@bench/run envoy

bench-haproxy: shipped ## benchmark HAProxy with weir, compared with a stick table and with no limit; 2 minutes
	@tools/deps check bench haproxy
	@bench/run haproxy

bench-replay: shipped ## benchmark weir replay, compared with wc and goaccess; writes 2 GB into build/ once
	@tools/deps check bench
	@bench/run replay

bench-web: web   ## measure the script time of a frame of the playground, in Chromium; needs the network once
	@tools/deps check bench browser
	@bench/run web

bench-clients: shipped ## benchmark the packages of clients/, compared with the storages that they replace; needs the network once
	@tools/deps clients
	@bench/run clients

instructions: shipped ## count the instructions of a decision, and compare them with bench/instructions.txt
	@tools/deps ci
	@tools/instructions

check:           ## build, and run every quick test
	@tools/deps check
	@tools/check build

claims: shipped  ## run every command of docs/claims.md, and compare what it prints; less than half a minute
	@tools/deps check
	@ninja -C build --quiet claims_memory weir.so | sed '/no work to do/d'
	@tests/claims/table_test.py docs/claims.md | grep -v '^ok'
	@tests/e2e/pages_test.py build/weir . docs/claims.md | grep -v '^ok'

redis: shipped   ## run the slow tests with real redis-servers
	@tools/deps check
	@tools/redis

nginx: shipped   ## run the slow tests with nginx, and all of them under ASan and UBSan; less than 3 minutes
	@tools/deps check
	@tools/nginx

clients: shipped ## test the packages of clients/, current client libraries and the examples of docs/clients.md; needs the network
	@tools/deps clients
	@tools/clients

envoy: shipped   ## test with a real Envoy, beside the reference rate limit service, and with gRPC clients; needs the network
	@tools/deps envoy
	@tools/envoy

haproxy: shipped ## test with a real HAProxy: SPOE and the Lua action, failures, reloads, exact counts; less than 2 minutes
	@tools/deps check haproxy
	@tools/haproxy

proxies: shipped ## test behind real proxies: Caddy, nginx, Envoy, HAProxy, Traefik; needs the network, and builds Traefik once
	@tools/deps proxies
	@tools/proxies

image-check: shipped ## test the image in containers, and the chart for Kubernetes; needs root and the network, and builds helm once
	@tools/deps check image
	@tools/image-check

browser: shipped wasm web ## test the web pages and the site in Chromium; downloads packages once
	@tools/deps check browser site
	@tools/browser

asan:            ## run `make check` under ASan and UBSan
	@tools/deps check ci
	@CC=clang EXAMPLE_CFLAGS='-fsanitize=address,undefined' tools/check build/asan -Db_sanitize=address,undefined -Db_lundef=false

tsan:            ## run `make check` under TSan
	@tools/deps check ci
	@CC=clang EXAMPLE_CFLAGS='-fsanitize=thread' tools/check build/tsan -Db_sanitize=thread -Db_lundef=false

fuzz:            ## run every fuzz target (FUZZ_SECONDS=20 each, FUZZ_AT_ONCE=as many as processors)
	@tools/deps check ci
	@tools/fuzz $(FUZZ_SECONDS) $(FUZZ_AT_ONCE)

coverage:        ## measure the branch coverage of src/core, which must be 100 %
	@tools/deps check ci
	@tools/coverage

mutants:         ## change lines at random; the tests must fail (SINCE=commit, SECONDS=600, ROOM=store, SEED=1, JOBS=2)
	@tools/deps check ci
	@tools/mutants --seconds $(SECONDS) $(if $(SINCE),--since $(SINCE)) $(if $(ROOM),--room $(ROOM)) $(if $(SEED),--seed $(SEED)) $(if $(JOBS),--jobs $(JOBS))

proof:           ## prove the core's decision functions with Frama-C
	@tools/deps proof
	@tools/proof

model: build/build.ninja ## explore the memory orders of the store in a simulated weak memory; 2 minutes
	@tools/deps check
	@tools/model

aarch64:         ## run the tests of core, policy, port and store on emulated aarch64; less than 4 minutes
	@tools/deps check aarch64
	@tools/aarch64

soak: shipped         ## a daemon under load that reloads and hands over to new processes (SECONDS=600)
	@PYTHONPATH=tests/kit/python python3 tests/soak/soak_test.py build/weir $(SECONDS)

sim: build/build.ninja  ## simulate daemons that share a limit, and processes that are killed in a store (SEEDS=5000, KILLS=1000000, FIRST=1)
	@tools/deps check
	@ninja -C build --quiet tests/hybrid_sim tests/store_sim && build/tests/hybrid_sim --seeds $(SEEDS) --first $(FIRST) && \
	    build/tests/store_sim --kills $(KILLS) --first $(FIRST)

wasm:            ## build core and policy as WebAssembly: build/weir.wasm
	@tools/deps check
	@mkdir -p build && tools/build-wasm build/weir.wasm

web: build/build.ninja   ## build the web pages: build/web, which a browser opens from disk
	@tools/deps
	@ninja -C build --quiet web_pages.c >/dev/null && echo "build/web: open playground.html or guide.html"

site: web        ## build the site, with docs, man pages, figures and web pages: build/site; downloads packages once
	@tools/deps site
	@tools/site

figures:         ## draw the figures of the documentation and of the web pages: docs/figures/*.svg, web/*/figures/*.svg
	@tools/deps check
	@tools/figures

dist: build/build.ninja  ## amalgamate the library into one file: build/dist/weir.c and weir.h
	@tools/deps check
	@rm -f build/dist.stamp && ninja -C build --quiet dist.stamp && wc -l build/dist/weir.[ch]

clients-dist: build/build.ninja ## pack the clients of other languages, without the network: build/clients-dist
	@tools/deps clients
	@tools/clients-dist build

lint:            ## check layout, clang-tidy, sizes, names, Markdown and links
	@tools/deps check ci
	@tools/lint

layers:          ## check that #include follows docs/architecture.md
	@tools/layers

fmt:             ## format the C code with .clang-format
	@tools/deps ci
	@git ls-files -z '*.c' '*.h' | xargs -0 clang-format -i

vectors:         ## generate tests/vectors from reference/
	@python3 reference/make_vectors.py

distros:         ## run `make run` and `make check` on a bare Debian 12 and 13, in chroots (RELEASE=12, CHECK=no, DIR=where to keep them); needs root
	@tools/deps distros
	@tools/distros $(if $(RELEASE),--release $(RELEASE)) $(if $(filter no,$(CHECK)),--no-check) $(DIR)

install: shipped  ## install into PREFIX (/usr/local), below DESTDIR if that is set
	@tools/install build

uninstall: shipped ## remove what `make install` installed with the same PREFIX and DESTDIR
	@meson configure build -Dprefix="$$(realpath -ms -- "$$PREFIX")" && ninja -C build --quiet shipped >/dev/null && \
	    tools/uninstall build "$${DESTDIR:+$$(realpath -ms -- "$$DESTDIR")}"

clean:           ## remove build/
	@rm -rf build
