# SPDX-License-Identifier: BSD-2-Clause
"""Builds the extension of the package. tools/clients-dist puts native/weir.[ch], the amalgamated library, beside
this file; the version of the package is the one in weir.h."""

import pathlib
import re

from setuptools import Extension, setup

HEADER = pathlib.Path(__file__).resolve().parent / "native" / "weir.h"

setup(
    version=re.search(r'#define WEIR_VERSION "(.*)"', HEADER.read_text())[1],
    ext_modules=[Extension("weir._native", ["native/native.c", "native/weir.c"], include_dirs=["native"],
                           depends=["native/weir.h"], extra_compile_args=["-std=gnu11", "-O2"],
                           extra_link_args=["-pthread"], py_limited_api=True)],
    options={"bdist_wheel": {"py_limited_api": "cp39"}},
)
