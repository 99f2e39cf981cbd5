"""The text of the demo: what two small research projects said, did and measured. Data only; ``seed`` plays it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from expb_tui.wire.research import Constraint, Measure, ObjectiveSpec

ACCOUNT = "Northlight Lab"
OWNER_NAME = "Ada Lindqvist"
OWNER_EMAIL = "ada@northlight.example"

AGENT = "researcher"
PROPOSER = "night-runner"
CRITIC = "second-reader"
AGENTS = {
    AGENT: "Tunes the shop's checkout from the workstation in the lab.",
    PROPOSER: "Proposes and runs experiments overnight on the load rig.",
    CRITIC: "Reviews what the others propose and report.",
}

CHECKOUT = "checkout-latency"
CHECKOUT_TARGET = "https://git.northlight.example/shop/checkout"
CHECKOUT_ABOUT = "Make the checkout of the shop fast enough that nobody reloads it on a Friday evening."
RANKING = "search-relevance"
RANKING_TARGET = "https://git.northlight.example/shop/search"
RANKING_ABOUT = "Better first results for the shop's search, at the latency that it has today."

LATENCY = ObjectiveSpec(
    description="Lower the 95th percentile of POST /checkout under the recorded Friday load (1,150 requests a second, "
    "20 minutes) on the three-replica rig.",
    measure=Measure(name="p95_ms", unit="ms", direction="minimize", baseline=455.0, target=380.0),
    constraints=[
        Constraint(name="error_rate", operator="<=", value=0.01, unit="ratio"),
        Constraint(name="memory_mb", operator="<=", value=900.0, unit="MB"),
    ],
)
THROUGHPUT = ObjectiveSpec(
    description="Raise the load that one replica carries before its p95 passes 600 ms.",
    measure=Measure(name="requests_per_second", unit="1/s", direction="maximize", baseline=412.0, target=520.0),
    constraints=[Constraint(name="error_rate", operator="<=", value=0.01, unit="ratio")],
)
RELEVANCE = ObjectiveSpec(
    description="Raise nDCG@10 on the 2,400 judged queries of the spring sample.",
    measure=Measure(name="ndcg_at_10", unit="score", direction="maximize", baseline=0.612, target=0.66),
    constraints=[Constraint(name="p99_ms", operator="<=", value=120.0, unit="ms")],
)

IDEATOR_INSTRUCTIONS = [
    "Prefer changes that can be measured in under an hour.",
    "Name the part of the request that the change acts on, and its share of the time.",
]
EXPERIMENTER_INSTRUCTIONS = [
    "Warm the replicas up for 2 minutes before measuring.",
    "Replay the recorded Friday load at least three times and attach the histogram of every run.",
]
INTEGRATOR_INSTRUCTIONS = ["Keep new behaviour behind a flag that is off by default."]


@dataclass(frozen=True, slots=True)
class Idea:
    """A hypothesis as proposed; ``effect`` in the objective's unit."""

    statement: str
    rationale: str
    plan: str
    effect: float
    risks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Finding:
    """A result as reported; ``constraints`` are the measured values in the order of the objective's."""

    conclusion: str
    summary: str
    value: float
    uncertainty: float
    constraints: Sequence[float]
    samples: int = 3
    revision: str = "9f2c1ab"


POOL = Idea(
    "A connection pool of 60 instead of 20 lowers p95 below 430 ms.",
    "At the peak, requests queue for a database connection.",
    "Set DB_POOL_SIZE=60 on one replica and replay the load for 20 minutes.",
    428.0,
    ("more connections than the database allows",),
)
POOL_REJECTED = (
    "Traces of last Friday show 3 ms of 455 in the pool's queue, and the database is at 82% of its connection limit. "
    "The gain cannot reach 25 ms."
)

FRAUD = Idea(
    "Scoring fraud after the answer instead of before it lowers p95 below 400 ms.",
    "The fraud check takes 61 ms in the median and is on the path of every order.",
    "Answer 202, score in the order queue, cancel where the score is bad; replay the load against three replicas.",
    394.0,
    ("orders that are cancelled after they were confirmed", "the queue grows under load"),
)
FRAUD_ACCEPTED = "The share is right and the rig has a queue. Watch the error rate: cancelled orders count as errors."
FRAUD_FOUND = Finding(
    "refuted",
    "p95 hardly moves: the queue's writes wait for the same lock that the check held. Cancelled orders raise the error "
    "rate above the limit.",
    449.8,
    5.1,
    (0.0131, 702.0),
)
FRAUD_REVIEWED = "Three runs agree within their spread and the lock shows in the profile. The idea is answered."

PRICES = Idea(
    "Caching price lookups for 60 s lowers p95 below 420 ms.",
    "Price lookups are 22% of the request time, and 94% of them repeat within a minute.",
    "Turn on the lookup cache for prices on one replica and replay the load.",
    415.0,
    ("stale prices for up to a minute",),
)
STOCK = Idea(
    "Caching stock lookups for 15 s lowers p95 below 435 ms.",
    "Stock is read twice in a checkout, 9% of the request time.",
    "Turn on the lookup cache for stock, with a 15 s limit.",
    432.0,
    ("a sold-out item is offered for 15 s more",),
)
CACHE_COMBINED = "Both ideas touch the same cache layer and share one experiment; apart, each hides the other's effect."
CACHE_STATEMENT = "Caching price and stock lookups for 60 s and 15 s lowers p95 below 400 ms."
CACHE_PLAN = "One run with both flags on, all replicas, recorded Friday load; report the hit rate of each cache."
CACHE_FIRST = Finding(
    "supported", "One replica, three runs; hit rates 91% (prices) and 78% (stock).", 401.9, 6.8, (0.0021, 771.0)
)
CACHE_REQUEST = "Three runs on one replica do not show the variance between replicas, and 6.8 ms is half of the margin."
CACHE_REQUESTS = ["Repeat on two further replicas and attach the histogram of every run."]
CACHE_SECOND = Finding(
    "supported",
    "All three replicas, nine runs. The slowest replica is at 399.1 ms; hit rates are as before.",
    396.4,
    2.2,
    (0.0020, 779.0),
    samples=9,
)
CACHE_REVIEWED = "Nine runs over three replicas agree; the interval is clear of 400 ms. Memory stays within its limit."
CACHE_INTEGRATION = (
    "Adds the lookup cache for prices and stock behind the flags CACHE_PRICES and CACHE_STOCK, both off."
)
CACHE_CHANGES: list[dict[str, str]] = [
    {"path": "checkout/lookup_cache.py", "action": "add"},
    {"path": "checkout/pricing.py", "action": "modify"},
    {"path": "checkout/stock.py", "action": "modify"},
    {"path": "config/flags.yaml", "action": "modify"},
]
CACHE_VERIFIED = "Unit tests and the recorded load pass on c0ffee1 with both flags on and off."

TAX = Idea(
    "Computing the tax breakdown only on the last step lowers p95 below 440 ms.",
    "The breakdown is 5% of the request time and the first two steps throw it away.",
    "Skip the breakdown where the client does not show it; replay the load.",
    436.0,
)
TAX_ACCEPTED = "Small, safe and independent of the cache. Worth a run."
TAX_FOUND = Finding(
    "supported",
    "The share of the breakdown is larger at the tail than in the median: large carts carry most of it.",
    421.7,
    3.4,
    (0.0019, 688.0),
    revision="b81d440",
)
TAX_REVIEWED = "The effect is larger than expected and explained by cart size; the three runs agree."

POOLED_JSON = Idea(
    "Serialising the order with a compiled encoder lowers p95 below 430 ms.",
    "JSON encoding of large carts takes 31 ms at the 95th percentile.",
    "Swap the encoder behind its interface; replay the load; compare answers byte by byte.",
    429.0,
    ("answers that differ in the order of keys",),
)
ENCODER_ACCEPTED = "The profile supports the share. Please compare answers byte by byte, as planned."
ENCODER_FOUND = Finding(
    "supported",
    "p95 falls by 19 ms on all replicas; 120,000 recorded answers are equal byte by byte.",
    436.2,
    2.9,
    (0.0022, 694.0),
    revision="4d7e0c2",
)

KEEPALIVE = Idea(
    "Keeping connections to the payment gateway open lowers p95 below 410 ms.",
    "A TLS handshake with the gateway costs 38 ms, and 71% of the orders pay for one.",
    "Raise the idle limit of the gateway client from 2 s to 60 s and replay the load against the gateway's sandbox.",
    407.0,
    ("the gateway closes idle connections first", "half-open connections after a deploy"),
)
KEEPALIVE_ACCEPTED = "Cheap to try, and the handshake is plainly visible in the traces."

PREFETCH = Idea(
    "Loading the customer's addresses while the cart is validated lowers p95 below 425 ms.",
    "The two reads do not depend on each other and run one after the other: 27 ms.",
    "Start both reads together; replay the load; watch the pool's queue.",
    424.0,
    ("twice the connections at the start of a request",),
)
BATCH_READS = Idea(
    "Reading cart lines in one query instead of one per line lowers p95 below 415 ms.",
    "Carts at the tail have 18 lines and the reads are 44 ms of their requests.",
    "Replace the loop with one IN query; replay the load with the recorded carts.",
    413.0,
    ("a query plan that changes with the number of lines",),
)

SYNONYMS = Idea(
    "Expanding queries with the catalogue's own synonyms raises nDCG@10 to 0.63.",
    "17% of the judged queries use a word that the catalogue spells differently.",
    "Expand at query time with a weight of 0.4; score the judged sample.",
    0.63,
    ("recall grows and precision falls",),
)
SYNONYMS_FOUND = Finding(
    "supported",
    "0.634 on the judged sample. Gains are in queries of one word; two-word queries are unchanged.",
    0.634,
    0.004,
    (96.0,),
    samples=5,
    revision="77aa012",
)
RECENCY = Idea(
    "A boost for items that sold in the last week raises nDCG@10 to 0.625.",
    "Judges prefer what is in season, and sales follow it.",
    "Add the boost as a function score; score the judged sample and the autumn sample.",
    0.625,
    ("new items never surface",),
)
EMBEDDINGS = Idea(
    "Re-ranking the first 50 results with a small sentence encoder raises nDCG@10 above 0.66.",
    "The right item is among the first 50 for 93% of the judged queries.",
    "Encode titles offline, re-rank on the CPU, measure p99.",
    0.664,
    ("p99 above its limit",),
)
EMBEDDINGS_HOLD = "The licence of the encoder's weights is with legal; do not run it before they answer."


def evidence(name: str, finding: Finding, digest: str, target: str) -> list[dict[str, Any]]:
    """References as an experimenter would give them."""
    return [
        {
            "kind": "artifact",
            "name": f"{name}-report.json",
            "uri": f"https://artifacts.northlight.example/{name}/report.json",
            "mediaType": "application/json",
            "sizeBytes": 48_211,
            "sha256": digest,
        },
        {"kind": "revision", "name": "target", "uri": target, "revision": finding.revision},
    ]
