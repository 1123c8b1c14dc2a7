# What bench/busy.R measures, for Python: python3 bench/busy.py NAME LIBRARY TASKS SECONDS
# Prints "what<tab>value" lines; NAME --version says that what NAME needs is there, or fails.
import ctypes
import sys
import time


def nap(i):
    time.sleep(0.01)
    return time.time()


class Executor:
    def __init__(self):
        from concurrent.futures import ProcessPoolExecutor
        self.make = lambda: ProcessPoolExecutor(2)

    def start(self):
        self.pool = self.make()

    def submit(self, n):
        return [self.pool.submit(nap, i) for i in range(n)]

    def collect(self, tasks):
        return [t.result() for t in tasks]

    def stop(self):
        self.pool.shutdown()


class Dask:
    def __init__(self):
        import distributed
        self.distributed = distributed

    def start(self):
        self.cluster = self.distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=True,
                                                     dashboard_address=None)
        self.client = self.distributed.Client(self.cluster)

    def submit(self, n):
        return [self.client.submit(nap, i, pure=False) for i in range(n)]

    def collect(self, tasks):
        return self.client.gather(tasks)

    def stop(self):
        self.client.close()
        self.cluster.close()


def main(who, library, tasks=0, seconds=0.0):
    contender = Dask() if "Dask" in who else Executor()
    if library == "--version":
        print("here")
        return
    # PyDLL keeps the interpreter's lock for the call, as a C function does by itself; CDLL gives it up
    c = ctypes.PyDLL(library) if "held" in who else ctypes.CDLL(library)
    contender.start()
    contender.collect(contender.submit(10))
    began = time.time()
    submitted = contender.submit(tasks)
    after = time.time()
    c.busy_for(ctypes.byref(ctypes.c_double(seconds)))
    back = time.time()
    ends = contender.collect(submitted)
    done = time.time()
    assert len(ends) == tasks
    for what, value in (("submit", after - began), ("done", sum(e <= back for e in ends)), ("all", done - began)):
        print("%s\t%.6f" % (what, value), flush=True)
    contender.stop()


if __name__ == "__main__":
    numbers = [float(x) for x in sys.argv[3:]]
    main(sys.argv[1], sys.argv[2], *([int(numbers[0]), numbers[1]] if numbers else []))
