# SPDX-License-Identifier: BSD-2-Clause
"""The smallest Django site that uses the middleware of docs/clients.md: django_site.py PORT."""

import sys

import django
from django.conf import settings
from django.core.management import call_command
from django.http import HttpResponse
from django.urls import path

settings.configure(ALLOWED_HOSTS=["*"], MIDDLEWARE=["limit.Limit"], ROOT_URLCONF=__name__)
urlpatterns = [path("", lambda request: HttpResponse("hello\n"))]

if __name__ == "__main__":
    django.setup()
    call_command("runserver", f"127.0.0.1:{sys.argv[1]}", use_reloader=False, skip_checks=True)
