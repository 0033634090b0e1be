from typing import Any, Callable, Dict, Iterator, Mapping, NamedTuple, Optional

class Verdict(NamedTuple):
    save: bool
    end: bool
    budget: int

class Run:
    params: Dict[str, Any]
    trial: int
    rank: int
    world: int
    local_rank: int
    attempt: int
    seed: int
    iteration: int
    budget: int
    iterations_max: int
    checkpoint: str
    scratch: str
    output: str
    experiment: str
    name: str
    directory: str
    ended: bool
    @property
    def inside(self) -> bool: ...
    @property
    def save(self) -> str: ...
    def listen(self, listener: Callable[[int, Mapping[str, Any]], Any]) -> None: ...
    def iterations(self) -> Iterator[int]: ...
    def report(self, iteration: int, metrics: Mapping[str, Any], finished: bool = False) -> Verdict: ...
    def follow(self, verdict: Verdict) -> Verdict: ...
    def saved(self, iteration: int) -> None: ...
    def note(self, key: str, text: str) -> None: ...

def start(params: Optional[Mapping[str, Any]] = None, iterations: int = 10) -> Run: ...
def _recall(path: str) -> str: ...
def _keep(path: str, text: str) -> None: ...
