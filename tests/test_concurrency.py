"""Threads, forks, workers, tasks."""

import asyncio
import concurrent.futures
import gc
import multiprocessing
import os
import pickle
import sys
import threading
import traceback
import types
import weakref

import pytest

import bcspec
from bcspec import assume
from tests import concurrency_example as example

pytestmark = pytest.mark.processes


@pytest.fixture(autouse=True)
def switch_often():
    """Threads take turns as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def in_threads(count, work):
    """Run `work(number)` in threads that start together; all it returned, or the first error."""
    barrier = threading.Barrier(count)

    def started(number):
        barrier.wait()
        return work(number)

    with concurrent.futures.ThreadPoolExecutor(count) as pool:
        return list(pool.map(started, range(count)))


def make(numbers):
    def f(x):
        total = 0
        for n in numbers:
            total = total + n * x
        return total

    return f


def test_the_same_function_is_specialised_by_many_threads():
    generic = make((1, 2, 3))

    def work(number):
        fast = bcspec.partial_eval(generic, strict=True)
        return [fast(x) for x in range(20)], bcspec.original(fast) is generic

    assert in_threads(6, work) == [([6 * x for x in range(20)], True)] * 6


def test_specialising_while_others_call():
    generic = make((1, 2, 3))
    shared = [generic]

    def work(number):
        if number == 0:
            for _ in range(10):
                shared[0] = bcspec.partial_eval(generic, strict=True)
            return []
        return [x for x in range(3000) if shared[0](x) != 6 * x]

    assert in_threads(4, work) == [[]] * 4


def test_many_threads_wait_for_one_specialisation():
    built = []
    later = bcspec.partial_eval(make((1, 2, 3)), after=50)
    waiting = later.__closure__[0].cell_contents
    specialise = waiting.specialise
    waiting.specialise = lambda: built.append(1) or specialise()

    def work(number):
        return [x for x in range(300) if later(x) != 6 * x]

    assert in_threads(6, work) == [[]] * 6
    assert built == [1]
    bcspec.explain(later)


SOURCE = """
def helper(x):
    return 0

def f(x):
    return helper(x)
"""


@pytest.fixture
def module():
    made = types.ModuleType("concurrency_module")
    sys.modules[made.__name__] = made
    exec(compile(SOURCE, "concurrency_module.py", "exec"), vars(made))
    yield made
    del sys.modules[made.__name__]


def value(n):
    return lambda x: n


def test_many_threads_call_what_breaks(module):
    """No call that begins after a change sees what was before it."""
    module.helper = value(0)
    shared = [bcspec.partial_eval(module.f, strict=True)]
    latest = [0]
    last = 60

    def work(number):
        if number == 0:
            for n in range(1, last + 1):
                module.helper = value(n)
                latest[0] = n
                if n % 3 == 0:  # those that broke often stay generic
                    shared.append(bcspec.partial_eval(module.f, strict=True))
            return []
        wrong = []
        while latest[0] < last:
            before = latest[0]
            found = shared[before % len(shared)](1)
            if not before <= found <= last:
                wrong.append((before, found))
        return wrong

    assert in_threads(4, work) == [[]] * 4
    assert [fast(1) for fast in shared] == [last] * 21


def test_many_threads_invalidate(module):
    several = [bcspec.partial_eval(module.f, strict=True) for _ in range(20)]

    def work(number):
        for fast in several:
            bcspec.invalidate(fast)
            assert fast(1) == 0
        return [bcspec.original(fast) is module.f for fast in several]

    assert in_threads(5, work) == [[True] * 20] * 5


def test_functions_die_while_others_are_made(module):
    def work(number):
        references = []
        for n in range(15):
            fast = bcspec.partial_eval(module.f, strict=True)
            module.helper = value(0)
            assert fast(1) == 0
            references.append(weakref.ref(fast))
        return references

    references = [each for found in in_threads(4, work) for each in found]
    gc.collect()
    assert [reference() for reference in references] == [None] * 60


def test_local_state_of_threads_is_their_own():
    local = threading.local()

    def make(local):
        def f(x):
            local.value = x
            for _ in (1, 2, 3):
                local.value = local.value + 1
            return local.value

        return f

    fast = bcspec.partial_eval(make(local), strict=True)
    assert in_threads(4, lambda number: [fast(number) for _ in range(500)]) == [
        [number + 3] * 500 for number in range(4)
    ]


# -- processes --------------------------------------------------------------------------------------


def in_child(work):
    """Whether `work` succeeds in a forked process."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            work()
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")


@forks
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_forked_process_goes_on(module):
    fast = bcspec.partial_eval(module.f, strict=True)
    later = bcspec.partial_eval(make((1, 2)), after=1)

    def work():
        assert fast(1) == 0
        module.helper = value(7)
        assert fast(1) == 7
        assert [later(2) for _ in range(3)] == [6, 6, 6]
        bcspec.explain(later)
        assert bcspec.partial_eval(make((5,)), strict=True)(1) == 5

    assert in_child(work)
    assert fast(1) == 0, "the parent is not touched"
    module.helper = value(8)
    assert fast(1) == 8


@forks
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_fork_while_another_thread_holds_the_lock(module):
    fast = bcspec.partial_eval(module.f, strict=True)
    held, release = threading.Event(), threading.Event()

    def hold():
        with assume._lock:
            held.set()
            release.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()

    def work():
        module.helper = value(3)
        assert fast(1) == 3

    try:
        assert in_child(work)
    finally:
        release.set()
        thread.join()


def test_pickles_of_functions_of_a_module():
    assert pickle.loads(pickle.dumps(example.specialised)) is example.specialised


@pytest.mark.parametrize("method", multiprocessing.get_all_start_methods())
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_workers_of_a_pool(method):
    context = multiprocessing.get_context(method)
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=context) as pool:
        assert list(pool.map(example.specialised, range(3))) == [
            example.generic(x) for x in range(3)
        ]
        assert pool.submit(explained_there).result().startswith("generic  (")


def explained_there():
    wrapper = example.make(3)
    assert [wrapper(n) for n in range(3)] == [3, 6, 9]
    return bcspec.explain(example.specialised)


# -- tasks ----------------------------------------------------------------------------------------------


def test_coroutines_take_turns():
    def make(numbers):
        async def f(x, log):
            for n in numbers:
                log.append((x, n))
                await asyncio.sleep(0)
            return x * len(numbers)

        return f

    generic = make((1, 2, 3))
    fast = bcspec.partial_eval(generic, strict=True)

    async def run(function):
        log = []
        found = await asyncio.gather(*(function(x, log) for x in range(3)))
        return found, log

    assert asyncio.run(run(fast)) == asyncio.run(run(generic))
