{
  "targets": [{
    "target_name": "weir",
    "sources": ["src/addon.c", "src/stores.c", "deps/weir.c"],
    "include_dirs": ["deps"],
    "cflags_c": ["-std=c11", "-fvisibility=hidden", "-Wall"],
    "ldflags": ["-pthread"]
  }]
}
