# SPDX-License-Identifier: BSD-2-Clause
"""Random configuration directories and random requests for them, from a seed. Both are maps and lists
with the field names of the configuration files and of the protocol.

Some keys begin with a word that says what is under test: `quota` for limits with quota_mode, `middle`
for a wildcard that is not at the end, `own` for descriptors whose limit is in the request only, and
`both` for descriptors with a configured limit and one in the request."""

import random

DOMAINS = ("edge", "mesh.internal", "api-1", "ingress", "batch", "rpc")
KEYS = ("path", "user", "remote_address", "method", "tenant", "generic_key")
WORDS = ("GET", "POST", "alpha", "beta", "/api/v1", "/static/a.css", "10.0.0.7", "2001:db8::1", "höhe", "a|b", "x y")
UNITS = ("hour", "day", "week", "month", "year")


# ---- YAML ----------------------------------------------------------------------------------------


def scalar(value):
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int) else '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'


def yaml(value, indent=0):
    """Lines of YAML for a map or a list of maps."""
    space = "  " * indent
    for key, one in value.items():
        if isinstance(one, dict):
            yield f"{space}{key}:"
            yield from yaml(one, indent + 1)
        elif isinstance(one, list):
            yield f"{space}{key}:"
            for element in one:
                lines = list(yaml(element, indent + 2))
                yield f"{space}  - {lines[0].lstrip()}"
                yield from lines[1:]
        else:
            yield f"{space}{key}: {scalar(one)}"


def text(root):
    return "\n".join(yaml(root)) + "\n"


# ---- configurations ------------------------------------------------------------------------------


class Configuration:
    """A random configuration. `roots` are its files, one for each domain.
     units   those that limits may have
     shadow  the share of descriptors with shadow_mode, 0..1"""

    def __init__(self, seed, units=UNITS, shadow=.1):
        self.random, self.units, self.shadow = random.Random(seed), units, shadow
        self.roots = [self.root(domain) for domain in DOMAINS]

    def files(self):
        return {f"{root['domain']}.yaml": text(root) for root in self.roots}

    def limit(self):
        return {"unit": self.random.choice(self.units).upper() if self.random.random() < .3
                else self.random.choice(self.units),
                "requests_per_unit": self.random.choice((0, 1, 2, 3, 5, 8, 13, 20, 35, 60, 1000, 4000000000))}

    def flags(self, wildcard):
        chances = {"shadow_mode": self.shadow, "detailed_metric": .15, "value_to_metric": .15,
                   "share_threshold": .5 if wildcard else 0}
        return {name: True for name, chance in chances.items() if self.random.random() < chance}

    def value(self):
        """None for any value."""
        choice = self.random.random()
        word = self.random.choice(WORDS)
        if choice < .35:
            return None
        if choice < .75:
            return word
        return "*" if choice < .8 else word[:self.random.randint(1, 4)] + "*"

    def descriptor(self, depth):
        value = self.value()
        ret = {"key": self.random.choice(KEYS)}
        if value is not None:
            ret["value"] = value
        leaf = depth == 1 or self.random.random() < .5
        if leaf or self.random.random() < .4:
            ret["rate_limit"] = {"unlimited": True} if self.random.random() < .07 else self.limit()
        ret.update(self.flags(value is not None and "*" in value))
        if not leaf:
            ret["descriptors"] = self.descriptors(depth - 1)
        return ret

    def descriptors(self, depth):
        found = {}
        for _ in range(self.random.randint(2, 6)):
            one = self.descriptor(depth)
            found.setdefault((one["key"], one.get("value")), one)
        return list(found.values())

    def root(self, domain):
        """A random tree, and one descriptor of each kind that a test must not miss."""
        return {"domain": domain, "descriptors": self.descriptors(3) + [
            {"key": "quota", "quota_mode": True, "rate_limit": {"unit": "day", "requests_per_unit": 3}},
            {"key": "quota", "value": "b", "quota_mode": True, "rate_limit": {"unit": "day", "requests_per_unit": 20}},
            {"key": "middle", "value": "a*z", "rate_limit": {"unit": "day", "requests_per_unit": 30}},
            {"key": "both", "rate_limit": {"unit": "day", "requests_per_unit": 40}},
            {"key": "tier", "value": "low", "rate_limit": {"name": "low", "unit": "day", "requests_per_unit": 4}},
            {"key": "tier", "value": "mid", "rate_limit": {"name": "mid", "unit": "day", "requests_per_unit": 50}},
            {"key": "tier", "value": "high", "rate_limit": {
                "name": "high", "unit": "day", "requests_per_unit": 500,
                "replaces": [{"name": "low"}, {"name": "mid"}]}},
            {"key": "tier", "value": "none", "rate_limit": {"unlimited": True, "replaces": [{"name": "high"}]}}]}


# ---- requests ------------------------------------------------------------------------------------


class Requests:
    """An endless sequence of random requests for a configuration. next() returns one."""

    def __init__(self, seed, configuration):
        self.random, self.roots = random.Random(seed), configuration.roots

    def value(self, descriptor):
        """A value that the descriptor matches, often."""
        pattern = descriptor.get("value")
        if pattern is None:
            few = self.random.random() < .5
            return self.random.choice(WORDS) if few else f"v{self.random.randrange(1000)}"
        if self.random.random() < .1:
            return self.random.choice((*WORDS, ""))
        return pattern.replace("*", self.random.choice(("", "x", "-1", "zz")))

    def path(self, descriptors):
        """The entries of a descriptor on a way down the tree."""
        ret = []
        while descriptors and (not ret or self.random.random() < .8):
            chosen = self.random.choice(descriptors)
            ret.append((chosen["key"], self.value(chosen)))
            descriptors = chosen.get("descriptors")
        if self.random.random() < .05:
            ret.append((self.random.choice(KEYS), self.random.choice(WORDS)))
        return ret

    def descriptor(self, root):
        ret = {"entries": self.path(root["descriptors"]) if self.random.random() < .98 else []}
        choice = self.random.random()
        if choice < .1:
            ret["hits_addend"] = 0
        elif choice < .2:
            ret["hits_addend"] = self.random.choice((1, 2, 3, 7, 50))
        choice = self.random.random()
        if choice < .04:
            n = self.random.randrange(12)
            ret["entries"], ret["limit"] = [("own", f"v{n}")], (n * 3, 1 + n % 6)
            if ret["limit"][1] < 4:
                ret["limit"] = (n * 3, 4)
        elif choice < .05:
            ret["entries"], ret["limit"] = [("both", f"v{self.random.randrange(5)}")], (10, 4)
        return ret

    def next(self):
        root = self.random.choice(self.roots)
        choice = self.random.random()
        ret = {"domain": root["domain"] if choice < .97 else self.random.choice(("", "nowhere", "edge2"))}
        count = 0 if choice > .99 else self.random.choice((1, 1, 1, 2, 2, 3, 5))
        ret["descriptors"] = [self.descriptor(root) for _ in range(count)]
        if self.random.random() < .2:
            ret["hits_addend"] = self.random.choice((1, 2, 3, 10))
        return ret
