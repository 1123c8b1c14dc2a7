%% All-to-all: N processes; each sends a question to each (itself, too) and answers those that come. 2 N^2 messages.
%% It is Rickard Green's big:bang/1 of 2005, which the text of 2006 measured, but for two things: the processes end
%% when they are done, and take answers in the order in which they come (his asks for each by name, and has to search
%% its mailbox). The clock runs from the moment when all processes are there.
%% For each N of a list with commas it prints "N seconds". Up to Warm processes a round goes before that is not counted.
-module(bang).
-export([main/1]).

main([Sizes, Warm]) ->
    [measure(list_to_integer(N), list_to_integer(Warm)) || N <- string:tokens(Sizes, ",")],
    halt(0).

measure(N, Warm) ->
    if N =< Warm -> round_of(N); true -> ok end,
    io:format("~w ~.6f~n", [N, round_of(N) / 1.0e6]).

round_of(N) ->
    Self = self(),
    Pids = [spawn_link(fun() -> wait(N, Self) end) || _ <- lists:seq(1, N)],
    Begin = erlang:monotonic_time(microsecond),
    [P ! {all, Pids} || P <- Pids],
    [receive {done, P} -> ok end || P <- Pids],
    erlang:monotonic_time(microsecond) - Begin.

wait(N, Parent) ->
    receive {all, Pids} ->
        Me = self(),
        [P ! {ping, Me} || P <- Pids],
        serve(N, N, Me, Parent)
    end.

%% Questions still to be answered, answers still awaited
serve(0, 0, Me, Parent) -> Parent ! {done, Me};
serve(Pings, Pongs, Me, Parent) ->
    receive
        {ping, From} -> From ! {pong, Me}, serve(Pings - 1, Pongs, Me, Parent);
        {pong, _} -> serve(Pings, Pongs - 1, Me, Parent)
    end.
