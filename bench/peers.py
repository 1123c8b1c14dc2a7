# What bench/peers.R measures, for Python: python3 bench/peers.py NAME SECONDS NUMBER
# Prints "what<tab>seconds<tab>number" lines, of measurements of about so many seconds, and of so many no-ops in
# chunks. NAME --version prints the version of what NAME needs, or fails.
import os
import statistics
import sys
import time

WORKERS = 2


def same(i):
    return i


def several(x):
    return [same(i) for i in x]


def pid_of(i):
    time.sleep(0.001)
    return os.getpid()


def until_all_answered(ask, n):
    """Processes that answer at once get several tasks: ask again until each has answered."""
    pids = set()
    while len(pids) < n:
        pids.update(ask())
    return pids


class Executor:
    """concurrent.futures.ProcessPoolExecutor."""

    def __init__(self, method):
        self.method = method

    def version(self):
        return sys.version.split()[0]

    def start(self, n):
        import multiprocessing
        from concurrent.futures import ProcessPoolExecutor
        self.pool = ProcessPoolExecutor(n, mp_context=multiprocessing.get_context(self.method))
        return until_all_answered(lambda: self.pool.map(pid_of, range(n)), n)

    def stop(self):
        self.pool.shutdown()

    def one(self):
        return self.pool.submit(same, 1).result()

    def submit(self, n):
        return [f.result() for f in [self.pool.submit(same, i) for i in range(n)]]

    def each(self, n):
        return list(self.pool.map(same, range(n)))

    def chunks(self, n):
        return list(self.pool.map(same, range(n), chunksize=max(1, n // (4 * WORKERS))))


class Joblib:
    """joblib with its backend loky: processes are kept from one call to the next."""

    def version(self):
        import joblib
        return joblib.__version__

    def start(self, n):
        from joblib import Parallel, delayed
        from joblib.externals.loky import get_reusable_executor
        self.delayed = delayed
        self.parallel = Parallel(n_jobs=n).__enter__()
        self.singly = Parallel(n_jobs=n, batch_size=1)
        self.executor = get_reusable_executor
        return until_all_answered(lambda: self.singly(delayed(pid_of)(i) for i in range(n)), n)

    def stop(self):
        self.parallel.__exit__(None, None, None)
        self.executor().shutdown(wait=True)

    def one(self):
        return self.parallel([self.delayed(same)(1)])

    def each(self, n):
        return self.singly(self.delayed(same)(i) for i in range(n))

    def chunks(self, n):
        return self.parallel(self.delayed(same)(i) for i in range(n))


class Dask:
    """Dask's distributed scheduler on this machine, one thread a process, no dashboard."""

    def version(self):
        import distributed
        return distributed.__version__

    def start(self, n):
        import distributed
        self.cluster = distributed.LocalCluster(n_workers=n, threads_per_worker=1, processes=True,
                                                dashboard_address=None)
        self.client = distributed.Client(self.cluster)
        return list(self.client.run(os.getpid).values())

    def stop(self):
        self.client.close()
        self.cluster.close()

    def one(self):
        return self.client.submit(same, 1, pure=False).result()

    def submit(self, n):
        return self.client.gather([self.client.submit(same, i, pure=False) for i in range(n)])

    def each(self, n):
        return self.client.gather(self.client.map(same, range(n), pure=False))

    def chunks(self, n):
        size = max(1, n // (4 * WORKERS))
        pieces = [list(range(i, min(i + size, n))) for i in range(0, n, size)]
        return self.client.gather(self.client.map(several, pieces, pure=False))


CONTENDERS = {
    "Python ProcessPoolExecutor, fork": Executor("fork"),
    "Python ProcessPoolExecutor, forkserver": Executor("forkserver"),
    "Python joblib (loky)": Joblib(),
    "Python Dask": Dask(),
}


def seconds(f, *args):
    began = time.perf_counter()
    f(*args)
    return time.perf_counter() - began


def say(what, value, n):
    print("%s\t%.9f\t%d" % (what, value, n), flush=True)


def cost(f, most, budget):
    """Seconds of each of n tasks: n is what takes about the budget, by runs of fewer before."""
    n = 10
    while True:
        s = seconds(f, n)
        if s > budget / 4 or n >= most:
            break
        n = min(most, max(2 * n, int(n * budget / 2 / max(s, 1e-4))))
    n = int(min(most, max(10, n * budget / s)))
    return seconds(f, n) / n, n


def measure(c, budget, many):
    for n in (8, WORKERS):
        began = time.perf_counter()
        pids = c.start(n)
        s = time.perf_counter() - began
        assert len(set(pids)) == n, "not all processes have answered"
        say("start%d" % n, s, 1)
        if n > WORKERS:
            c.stop()
    for i in range(5):
        c.one()
    k = max(5, min(2000, int(budget / seconds(c.one))))
    say("one", statistics.median([seconds(c.one) for i in range(k)]), k)
    for what, most in (("submit", 10000), ("each", 200000)):
        if hasattr(c, what):
            say(what, *cost(getattr(c, what), most, budget))
    c.chunks(many)
    say("chunks", seconds(c.chunks, many) / many, many)
    c.stop()


if __name__ == "__main__":
    contender = CONTENDERS[sys.argv[1]]
    if sys.argv[2] == "--version":
        print(contender.version())
    else:
        measure(contender, float(sys.argv[2]), int(sys.argv[3]))
