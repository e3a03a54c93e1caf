# SPDX-License-Identifier: BSD-2-Clause
"""The requests of limitador_test.py: the same ones in every run.

    python3 tests/limitador/random_requests.py     prints them for the recorder
"""

import json
import random

COUNT = 5000


def one(r):
    namespace = r.choice(['plain', 'reports', 'zero', 'absent', 'cel', 'cel', 'same', 'unknown'])
    values = {'user': r.choice(['alice', 'bob', 'carol', 'dave', 'x|y', '']),
              'path': r.choice(['/a', '/a/b', '/c/b', '/c', '']),
              'req.method': r.choice(['GET', 'POST', 'PUT']), 'n': str(r.randrange(3, 7))}
    if r.random() < 0.3:
        values['role'] = r.choice(['admin', 'user'])
    if namespace not in ('plain', 'cel', 'absent') and r.random() < 0.1:
        del values['path']
    verb = r.choice(['check', 'check_and_report', 'check_and_report', 'check_and_report'])
    if namespace == 'reports' and r.random() < 0.3:
        verb = 'report'
    # A delta of 0 after a report above what was left: see the differences in docs/limitador.md.
    low = 1 if namespace == 'reports' else 0
    delta = r.choice([low, 1, 1, 1, 2, 3])
    return {'verb': verb, 'namespace': namespace, 'values': [values], 'delta': delta,
            'headers': verb == 'check_and_report' and r.random() < 0.5}


def all_requests():
    r = random.Random(18)
    return [one(r) for _ in range(COUNT)]


if __name__ == '__main__':
    for request in all_requests():
        print(json.dumps(request))
