%% All-to-all: N processes; each sends a message to every other and waits for all answers. 2 N (N - 1) messages.
%% Prints the seconds of the fastest of R rounds.
-module(bang).
-export([main/1]).

main([N, R]) ->
    Times = [round_of(list_to_integer(N)) || _ <- lists:seq(1, list_to_integer(R))],
    io:format("~.6f~n", [lists:min(Times) / 1.0e6]),
    halt(0).

round_of(N) ->
    Self = self(),
    Begin = erlang:monotonic_time(microsecond),
    Pids = [spawn_link(fun() -> wait(N, Self) end) || _ <- lists:seq(1, N)],
    [P ! {all, Pids} || P <- Pids],
    [receive {done, P} -> ok end || P <- Pids],
    erlang:monotonic_time(microsecond) - Begin.

wait(N, Parent) ->
    receive {all, Pids} ->
        Me = self(),
        [P ! {ping, Me} || P <- Pids, P =/= Me],
        serve(N - 1, N - 1, Parent)
    end.

%% Pings still to be answered, answers still awaited
serve(0, 0, Parent) -> Parent ! {done, self()};
serve(Pings, Pongs, Parent) ->
    receive
        {ping, From} -> From ! pong, serve(Pings - 1, Pongs, Parent);
        pong -> serve(Pings, Pongs - 1, Parent)
    end.
