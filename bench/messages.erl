%% The benchmark of the Erlang text, for bench/messages.R: N processes, each sends M messages to each other one, and receives
%% those of all. Prints microseconds, REPS times.
%%   erl -noshell -s messages main N M REPS
-module(messages).
-export([main/1]).

main([N, M, Reps]) ->
    [Count, Messages, Times] = [list_to_integer(atom_to_list(X)) || X <- [N, M, Reps]],
    [io:format("~p~n", [once(Count, Messages)]) || _ <- lists:seq(1, Times)],
    halt().

once(N, M) ->
    Me = self(),
    All = [spawn(fun() -> part(Me, N, M) end) || _ <- lists:seq(1, N)],
    Began = erlang:monotonic_time(microsecond),
    [P ! {all, All} || P <- All],
    [receive done -> ok end || _ <- All],
    erlang:monotonic_time(microsecond) - Began.

part(Parent, N, M) ->
    receive {all, All} -> ok end,
    Others = lists:delete(self(), All),
    [P ! {message, I} || I <- lists:seq(1, M), P <- Others],
    take((N - 1) * M),
    Parent ! done.

take(0) -> ok;
take(K) -> receive {message, _} -> take(K - 1) end.
