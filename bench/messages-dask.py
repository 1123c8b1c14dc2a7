# Calls of an actor of Dask's, from a program in Python: python3 bench/messages-dask.py CALLS REPEATS
# Prints the seconds a call took, one line a repetition.
import sys
import time

from dask.distributed import Client, LocalCluster


class Counter:
    def __init__(self):
        self.n = 0

    def add(self, k):
        self.n += k
        return self.n


def main(calls, reps):
    with LocalCluster(n_workers=1, threads_per_worker=1, processes=True, dashboard_address=None) as cluster:
        with Client(cluster) as client:
            counter = client.submit(Counter, actor=True).result()
            counter.add(1).result()
            for _ in range(reps):
                began = time.perf_counter()
                for _ in range(calls):
                    counter.add(1).result()
                print((time.perf_counter() - began) / calls)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
