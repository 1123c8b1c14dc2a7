%% All-to-all: N processes; each sends a message to every other and waits for all answers. 2 N (N - 1) messages.
%% For each N of a list with commas: R rounds, of which the first is not counted. Prints "N seconds" for each of the others.
-module(bang).
-export([main/1]).

main([Sizes, R]) ->
    [measure(list_to_integer(N), list_to_integer(R)) || N <- string:tokens(Sizes, ",")],
    halt(0).

measure(N, R) ->
    round_of(N),
    [io:format("~w ~.6f~n", [N, round_of(N) / 1.0e6]) || _ <- lists:seq(2, R)].

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
