# The maps that users call. map-arguments.R has their signature, map-elements.R takes their
# arguments, run_map() in map-run.R does the work.

#' Apply a function to each element of a vector, on the nodes of a cluster
#'
#' @description
#' * `cluster_map()` returns a list, as [lapply()] does. It is in the order of the elements,
#'   whatever node does which.
#' * `cluster_map_dbl()`, `_int()`, `_chr()` and `_lgl()` return a vector of that type.
#' * `cluster_map_dfr()` binds rows to a data frame.
#' * `cluster_walk()` is for what the function does, and not for its values.
#'
#' All have the same arguments: those of `cluster_map()`. [cluster_map2()] takes elements from two
#' vectors, [cluster_pmap()] from several, and [cluster_imap()] from a vector and its names.
#'
#' @section What travels: The function and its constant arguments go to each node once, not with
#'   each element. Variables of the workspace that the code uses go with them. They are in the
#'   workspace of the nodes while the map runs. Local variables travel with the function's
#'   environment, all of it.
#'
#'   Variables are searched in all functions that travel: `.f`, those in its environment, in
#'   elements and constants, in lists, attributes, slots and formulas, methods that the workspace
#'   has for what travels, and functions that are named in a string, as in `do.call("f", x)`. What
#'   these find is searched in turn. Promises in the environment of a function are evaluated before
#'   it travels.
#'
#'   What the code finds in an attached package has that package attached on the nodes. A package
#'   whose classes the objects have (a data.table, a tibble) is loaded there. An S4 class brings the
#'   methods that the workspace has for it, also for generics of packages (`show`, `+`): some 20 ms.
#' @section Packages under development: A package that `pkgload::load_all()` has made of its source
#'   is on the nodes as it is in the session now, in maps and tasks, in the functions of package
#'   \pkg{parallel}, and for other packages that use the cluster. Nodes get a copy of its namespace:
#'   functions, data, what it imports, methods and classes, the compiled code that the session has
#'   loaded, and links to the files of `inst/`. They load it when something needs it, in place of an
#'   installed version. After another `load_all()`, or when a function of it was replaced, they load
#'   it again before they do anything else. Nodes on other hosts are sent its files.
#'
#'   `.onLoad()` runs on the node, too; an error there is a warning. What is in an environment of
#'   the package is as it was when the copy was made. Workers of base R (`node = "psock"`) and the
#'   daemons of [mirai_daemons()] have the package as it was when they were started.
#' @section Who does what: Elements are handed out in their order as nodes get free. A second one
#'   waits at each node. Where elements take little time, many travel together: some 8 milliseconds
#'   of work, by the times measured so far. What waits at a node goes to another that is idle.
#' @section Guarantees: An element is started at most once, or with `.retries = k` at most `k + 1`
#'   times, each time on another node if there is one; on this machine also on the node that has
#'   come in place of the dead one, if no other is free. It is retried when its node has died, not
#'   when the function has failed or its time was up. An element that was with a node and not begun
#'   when that died was not started. Starts that a scheduler has ended are not counted, see
#'   [slurm()] and [hosts_command()].
#'
#'   A node that dies is replaced, and prepared as [cluster_setup()] says. The other nodes go on
#'   meanwhile. A node of which three in turn have ended before they had begun anything is given up
#'   for this map. An element that kills every node it meets fails, and no other with it.
#' @section Output and conditions: What elements print, their messages, warnings and other
#'   conditions appear in the session in the order of the elements, or with `.relay = "live"` as
#'   they come. Of the call of a condition only the function's name is left where there is much
#'   data in it.
#'
#'   `options(warn = )` of the session holds on the nodes while the map runs. With 2, a warning is
#'   the error of its element, after the handlers of the session have seen it, but not within
#'   [suppressWarnings()].
#'
#'   With a function as `.relay`, as in `.relay = function(cond) print(cond)`, that gets each
#'   message, warning and other condition while its element goes on, those of one element in their
#'   order, and nothing else becomes of them. An error in it is an error of the map. Output goes
#'   where that of the cluster goes.
#' @section browser() and debug(): Where the session is at a prompt, that of `browser()` in an
#'   element comes there, and the lines go to the node. So does that of functions of the workspace
#'   that are debugged, by `debug(.f)` or `debug(g)`. It is R's own browser: `n`, `s`, `f`, `c`,
#'   `where` and what is evaluated do what they do without a cluster, and the element goes on from
#'   there. `Q` ends the map. Elements on other nodes go on; those that come to a prompt meanwhile
#'   wait until the element before has ended. What the element prints and signals is shown at once
#'   from its first prompt on. Time limits go on. Nodes of other hosts, of [hosts()] and the like,
#'   do the same; while a host is cut off a line waits for it, and when it is given up the element
#'   has failed. Without a prompt, with `.relay = "none"` or a function as `.relay`, on TCP nodes of
#'   other hosts, and within [capture.output()] and the like, `browser()` is skipped, as in any
#'   script. A task of [cluster_submit()] waits with its prompt for [collect()] or [resolved()].
#' @section Random numbers: Each element has a stream of its own (L'Ecuyer's generator, see
#'   [parallel::nextRNGStream()]). Results do not depend on the number of nodes, on the order of the
#'   work, or on retries. With `.seed = TRUE` the streams follow from the session's generator, that
#'   is from [set.seed()]. The session's generator is left as one draw would leave it. `set.seed(i)`
#'   within `.f` seeds L'Ecuyer's generator; with `.seed = FALSE` R's default one, as in [lapply()].
#' @section Interrupts: Ctrl-C cancels what has not been begun and interrupts what has. The cluster
#'   can be used at once. So it is after an error with `.on_error = "stop"`.
#' @section What the next map finds: These are put back after each map: options, environment
#'   variables, working directory, locale, sinks, time limits and the kind of random numbers that an
#'   element has set. The variables of the map are removed from the workspace of the nodes.
#'
#'   What stays: packages that were loaded or attached, with the options and variables that are new
#'   since then; variables that elements have made in the workspace; what calls have done, as by
#'   [parallel::clusterEvalQ()] and [cluster_setup()]. A node whose workspace was locked is
#'   replaced.
#' @section Fresh workspace: With `.fresh = TRUE` an element or task leaves nothing behind, also
#'   when it has failed or was interrupted. Whoever comes next on its node finds these as they were:
#'   the variables of the workspace, the search path, options, environment variables, the working
#'   directory and the kind of random numbers. Variables that were there, such as those of
#'   [cluster_export()], have their values again.
#'
#'   What stays: namespaces that were loaded, with the options and environment variables that they
#'   have set; what is changed without a copy, as environments and a data.table are; definitions of
#'   S4 classes and methods. Where an element has changed nothing, this takes some 10 microseconds.
#' @section What ends with a node: Processes that an element has started end with its node: when the
#'   node has died, was ended because time was up or it had too much memory, and when the cluster or
#'   the session ends. Those of a node that goes on go on, too. On Linux with strategies
#'   `"fork_server"` and `"spawn"` this holds also for processes in sessions of their own
#'   (`system("setsid ... &")`) that keep the environment variable `CLUTCH_MARK`. Elsewhere those go
#'   on.
#' @section Journal: With `.journal = path` each result is written to a file as it comes. The same
#'   map again, in this session or in another, computes only what is not in there: after the end of
#'   the session, whatever has ended it, or with more elements. A message says how many were done.
#'
#'   An element is known by what it would compute: the function, what its code mentions of its
#'   environment, constants, variables of the workspace that travel, and the element itself. Layout
#'   and comments do not count, nor do position, options such as `.retries`, or the number of nodes.
#'   Where the element has used random numbers, its stream counts, too: so it is computed again when
#'   `.seed` or its position has changed. With `.seed = TRUE` the streams that the journal has are
#'   used again, unless the session's generator was seeded or used before; a second call of the same
#'   map in a session gets streams of its own. Without streams (`.seed = FALSE`) random numbers are
#'   those of a place in a run of the map.
#'
#'   What is not known: files and other things outside that the function reads, variables that only
#'   the nodes have, and the code of packages. When a package has another version than the one that
#'   results were made with, they are kept, with a warning of class `clutch_journal_versions`.
#'   Packages that `pkgload::load_all()` has made count with their code.
#'
#'   When the code is another one than before, nothing is kept, and a message says what has changed.
#'   Failed elements are computed again. Results are safe from the end of the session 20 ms after
#'   they have come, and from the end of the machine `.journal_sync` seconds later. One session at a
#'   time may write to a journal. See [journal_read()].
#' @section Results combined: With `.reduce = f` the value of `cluster_map(cl, x, g)` is that of
#'   `Reduce(f, lapply(x, g))`, to the last bit, and with `.init` that of
#'   `Reduce(f, lapply(x, g), .init)`. `f` is called in the session, in the order of the elements:
#'   with what it has returned so far, and the next result. That happens as results come, and each
#'   is let go then.
#'
#'   Results that have come before one whose turn is earlier wait. Where they have more than
#'   `clutch.reduce_ahead` bytes (see [clutch-options]) no further element is begun before that one
#'   has come; what nodes have by then still comes. So a map over any number of large results needs
#'   memory for the combined value, for these bytes, and for a few results of each node.
#'
#'   Errors are as without, also those of `f`. With `.on_error = "continue"` elements that have
#'   failed are left out. Results that a journal has are read one by one. `cluster_map2()`,
#'   `cluster_pmap()` and `cluster_imap()` have it, too; `.detach`, and variants with a type or
#'   without values, have not.
#' @section Detached maps: With `.detach = TRUE` the map returns at once, and goes on when the
#'   session ends. The value is a handle, for [collect()] and [cancel()]. See [cluster_jobs()].
#' @section Without nodes: With `cl = "here"` the elements are done in this session, one after the
#'   other, with the random numbers that they have on a cluster. So `browser()`, `debug()` and
#'   `options(error = recover)` work in `.f`. It sees all variables of the session. Limits,
#'   `.retries`, `.fresh` and `.relay` make no difference; `.journal` and `.detach` are errors.
#' @section What elements ask for: With `.needs = list(memory = "2 GB", cores = 4, gpu = 0.5)` an
#'   element begins where the host of its node has all of that left. Each is one value for all
#'   elements, or a vector with one an element.
#'   * `memory`: number of bytes, or text such as `"2 GB"`. That much is expected of it at its peak,
#'     and more where earlier elements had more, see *Memory that is short*.
#'   * `cores`: whole number. So many threads are set in the libraries that its node has loaded
#'     (OpenMP, OpenBLAS, MKL, \pkg{data.table}), and in the environment variables from which others
#'     take them; they are put back afterwards. What has not asked for cores counts with one, and
#'     waits for none. The last elements, when nothing else waits, share the cores that are free
#'     (tasks of [cluster_submit()] do not: nobody knows which come next).
#'     Where others of the map are about to end, by the times measured so far, such an element waits
#'     for their cores, if it will be done sooner with them.
#'   * Other names are kinds of units, as argument `resources` of [make_cluster()] says: a whole
#'     number of them, or a part of one between 0 and 1. GPUs are found by themselves.
#'
#'   Units have names. [task_resources()] tells which an element has. Those of kind `gpu` are in
#'   `CUDA_VISIBLE_DEVICES`, `HIP_VISIBLE_DEVICES` and `ZE_AFFINITY_MASK` before any code of the map
#'   runs on the node, its packages included. A library that has read such a variable before in the
#'   same node may not read it again.
#'
#'   No unit is given twice. What an element waits for is kept for it: maps and tasks that came
#'   later get none of it, and go on with what they ask for besides. When a node has died, what it
#'   had is free, and its element gets units anew. What no host can ever meet is an error of class
#'   `clutch_resources` before anything starts.
#' @section Limits of memory: What counts for `.max_memory` is what `cluster_status()$memory` shows:
#'   what a node has written, in memory or swap, and not what it shares with its fork server. What
#'   garbage earlier elements left is collected before the next one begins. Where not even a new
#'   node can begin anything, the error says how much a node has by itself.
#'
#'   While several maps and tasks are under way, the least of their limits holds for all. A limit
#'   over the machine's memory is none. The memory of nodes on other machines is not known here: a
#'   warning of class `clutch_unlimited` says so.
#' @section Memory that is short: Where tasks do not fit side by side, fewer of them are at work at
#'   a time. The session looks at what the machine and its control groups have left, and at what the
#'   nodes have. A task is handed out where what tasks of this map have had so far still fits. Where
#'   memory is short nodes that grow are stopped, the youngest task first, so that the older ones
#'   can end; they go on as soon as there is room. No task is started twice by that, and no time
#'   limit runs meanwhile. A message of class `clutch_memory_short` says so at the end of the map.
#'   It has `seconds`, `at_once` (how many tasks were at work meanwhile, on average), `peak` (the
#'   most that a node had) and `limit`, both in bytes.
#'
#'   Where stopping does not help, the node of the youngest task that may be repeated (`.retries`)
#'   is ended, and its task begins anew. That is no try. Where none may be repeated, the task that
#'   has most fails, as does one that does not fit alone: with class `clutch_task_memory`. Several
#'   sessions of a user that share a limit each take their part of what is left, and one after the
#'   other has the right of way.
#'
#'   A node that has nothing to do then gives back what it can. What it has written to of the memory
#'   that it had in common with others it cannot give back (some 25 MB, once R has collected
#'   garbage there). So another node comes in its place, with what [cluster_setup()] and
#'   [cluster_export()] have said, unless functions of package parallel have called it: what such a
#'   call has left there may be wanted.
#'
#'   Only on Linux. Nodes that are no forks are not stopped, and those on other machines count for
#'   nothing. Option `clutch.memory` of [clutch-options] sets another limit, or none.
#' @param cl cluster made by [make_cluster()]. `NULL`: the session's own, see [own-cluster].
#'   `"here"`: no cluster, see *Without nodes*.
#' @param .x vector or list. Its elements are the first argument of `.f`.
#' @param .f function of one element. Or as in purrr: the name of a function; a formula such as
#'   `~ .x + 1` (with package \pkg{rlang}); or what to extract from each element, by a name, a
#'   position, or a list of these and of functions. What is not there is `NULL`, or the value of
#'   argument `.default`.
#' @param ...,.more constant arguments of `.f`; `.more` is a list of them. Those whose names are
#'   taken here go into `.more`, as in `.more = list(cl = 3)`: names that begin with a dot, and `c`
#'   and `cl`.
#' @param .seed `TRUE`, one number, or a value of `.Random.seed`: where random numbers come from.
#'   `FALSE`: the nodes' own.
#' @param .progress logical: whether to show a progress bar. `NULL`: in interactive sessions, when
#'   the map takes longer than a second. Where \pkg{progressr} is in use its signals are given
#'   instead.
#' @param .timeout number of seconds that one element may take. Then it is interrupted, and its node
#'   ended when it does not react within `clutch.task_grace` (see [clutch-options]). The others are
#'   not affected.
#' @param .retries number: how often an element is tried again when its node has died.
#' @param .chunk number of elements that travel together. `NULL`: as their times say.
#' @param .globals `TRUE`: variables and packages are found. `FALSE`: none are. Or character: names
#'   of variables; or a named list of values.
#' @param .packages character: names of packages to attach on the nodes before.
#' @param .relay `"ordered"` (or `TRUE`), `"live"`, or `"none"` (`FALSE`): when output and
#'   conditions appear in the session. With `"none"` output goes where that of the cluster goes. Or
#'   a function of a condition: see *Output and conditions*.
#' @param .on_error `"stop"`: the first failure is an error, and the rest is cancelled. Of several
#'   elements that fail at about the same time, it is the first in order. `"continue"`: in place of
#'   a value there is the error (in typed vectors `NA`, in data frames nothing), and a warning of
#'   class `clutch_failed` says how many there are.
#' @param .max_memory number of bytes, or text such as `"2 GB"`. A node that has more is ended, and
#'   its element fails.
#' @param .priority whole number between -1000 and 1000: while tasks of several maps and of
#'   [cluster_submit()] wait for nodes, those with more are handed out first; with the same, those
#'   that came first. A task that has begun goes on; one that waits at a node is taken back for one
#'   with more, from another host when that has answered. Those with less wait as long as there are
#'   others.
#' @param .needs named list: what an element asks for of the host of its node, see *What elements
#'   ask for*.
#' @param .fresh `TRUE`: each element finds the workspace of its node as it was before the map, see
#'   *Fresh workspace*.
#' @param .journal string: the file of a journal, see *Journal*. `NULL`: there is none.
#' @param .journal_if_changed `"compute"`: where the code has changed, all is computed, and a
#'   message says what has. `"error"`: that is an error before anything starts.
#' @param .journal_sync number of seconds after which results are on the disk at the latest: what a
#'   power failure may take. 0: each result is, before the map goes on. `Inf`: the system decides.
#' @param .journal_errors `"again"`: elements that have failed are computed again. `"keep"`: their
#'   errors are taken from the journal, as values are.
#' @param .detach `FALSE`, `TRUE`, a name, or a list, see [cluster_jobs()]. If not `FALSE`, the map
#'   goes on without the session. `.journal` is needed, too.
#' @param .pointers `"error"`: an external pointer, or a connection, in what the code uses, and for
#'   which [register_travel()] knows nothing, is an error of class `clutch_pointer` before anything
#'   starts. In a result it is the error of the element. `"warn"`: a warning. `"allow"`: nothing is
#'   said. The pointer is nil where it arrives.
#' @param .reduce function of two values, its name, or a formula: it combines the results, see
#'   *Results combined*. `NULL`: they are not.
#' @param .init any value: the first argument of the first call of `.reduce`. Where it is not given,
#'   that is the first result.
#' @param .env environment in which a name given as `.f` and names in `.globals` are looked up: by
#'   default the caller's.
#' @return
#' * `cluster_map()` and others with `.reduce`: what that has returned last, or its one argument.
#'   Where there is none, `list()`, as of [Reduce()].
#' * `cluster_map()`: list with one value for each element, and the names of `.x`.
#' * `cluster_map_dbl()`, `_int()`, `_chr()`, `_lgl()`: vector with one value for each element, and
#'   the names of `.x`.
#' * `cluster_map_dfr()`: data frame of all rows.
#' * `cluster_walk()`: `.x`, invisibly.
#' @section Options: The session's options replace the defaults of the arguments that begin with a
#'   dot, as `options(clutch.timeout = 60)` does for `.timeout`. See [clutch-options].
#' @section Errors: An element that fails is an error of class `clutch_task_error`. It has
#'   `element`, `node`, `host` (its name), `attempt`, `parent` (the original condition), `calls`
#'   (the stack on the node, as text) and `node_call`. It has a second class where the cause is
#'   another one than an error in `.f`:
#'   * `clutch_task_died`: its node has died (`pid`, `signal`, `status`; of [slurm()] and
#'     [hosts_command()] also `cause`)
#'   * `clutch_task_memory`: the same, for want of memory, or over `.max_memory`
#'   * `clutch_task_timeout`: it took longer than `.timeout`; `stack`: its calls then, or `NULL`
#'   * `clutch_task_cancelled`: it was cancelled
#'
#'   Other errors:
#'   * `clutch_value` (`element`): a value is not of the type asked for
#'   * `clutch_package` (`package`): one of `.packages` cannot be attached on a node
#'   * `clutch_journal`: the journal cannot be read or written. What is in it stays whole
#'   * `clutch_journal_locked` (`host`, `pid`): another session writes to it
#'   * `clutch_journal_changed` (`parts`): with `.journal_if_changed = "error"`
#'   * `clutch_pointer` (`path`, `object_class`): what travels is of use in this process only, see
#'     [register_travel()]
#'   * `clutch_resources` (`resource`, `asked`, `there`): `.needs` asks for more than any host has
#'   * `clutch_argument`: an argument or option is of no use
#'   * `clutch_stopped`: the cluster has been stopped
#'
#'   All have class `clutch_error`. A warning of class `clutch_large` says when what travels is more
#'   than `clutch.max_size` (see [clutch-options]), and what the largest objects are.
#'   ```
#'   tryCatch(
#'     cluster_map(cl, list(1, "a"), log),
#'     clutch_task_timeout = function(e) "too slow",
#'     clutch_task_error = function(e) conditionMessage(e$parent)
#'   )
#'   ```
#' @references L'Ecuyer, P., Simard, R., Chen, E. J., Kelton, W. D. (2002) An object-oriented
#'   random-number package with many long streams and substreams. *Operations Research* 50,
#'   1073-1075.
#' @seealso [cluster_map2()], [cluster_pmap()], [cluster_imap()]; [cluster_submit()] for one
#'   expression; [task_resources()], [cluster_setup()], [cluster_trace()], [task_attempt()],
#'   [clutch-options]
#' @examples
#' cl <- make_cluster(2)
#' cluster_map(cl, 1:3, function(x, power) x^power, power = 2)
#' cluster_map_dbl(cl, 1:3, function(x) rnorm(1, x), .seed = 42)
#' cluster_map_dfr(cl, 1:2, function(i) data.frame(i = i, square = i^2))
#' cluster_map(cl, 1:4, function(i) rep(i, 3), .reduce = `+`)
#'
#' # errors
#' tryCatch(cluster_map(cl, list(1, "a"), log), clutch_task_error = function(e) e$element)
#' x <- suppressWarnings(cluster_map_dbl(cl, list(1, "a"), log, .on_error = "continue"))
#' x
#' stop_cluster(cl)
#' @export
cluster_map <- new_map(".x", function() {
  if (nargs() == 3L && !missing(cl) && !missing(.x) && !missing(.f)) {
    values <- run_plain_map(cl, .x, .f, substitute(.f))
    if (!is.null(values)) return(values)
  }
  map_one(environment())
})

#' @rdname cluster_map
#' @usage NULL
#' @export
cluster_walk <- new_map(".x", function() {
  values <- map_one(environment(), walk = TRUE)
  invisible(if (is_job(values)) values else .x)
})

#' Apply a function to elements of two vectors, on the nodes of a cluster
#'
#' @description
#' The function gets the first elements of both, then the second elements, and so on.
#'
#' `cluster_map2_dbl()`, `_int()`, `_chr()`, `_lgl()`, `_dfr()` and `cluster_walk2()` have the same
#' arguments, and values as told below. What holds for all maps is on the page of [cluster_map()].
#'
#' @inheritParams cluster_map
#' @param .x,.y vectors or lists of the same length, or one of them of length one: that element goes
#'   with all of the other. Their elements are the first and second argument of `.f`.
#' @param .f function of two elements; or as in [cluster_map()].
#' @return
#' * `cluster_map2()`: list with one value for each pair, and the names of `.x`.
#' * `cluster_map2_dbl()`, `_int()`, `_chr()`, `_lgl()`: vector with one value for each pair, and
#'   the names of `.x`.
#' * `cluster_map2_dfr()`: data frame of all rows.
#' * `cluster_walk2()`: `.x`, invisibly.
#' @section Errors: As in [cluster_map()]; `element` of an error is the number of the pair.
#'   `clutch_argument`: the lengths do not match.
#'   ```
#'   tryCatch(cluster_map2(cl, 1:2, 1:3, sum), clutch_argument = conditionMessage)
#'   #> `.x` has 2 elements and `.y` has 3
#'   ```
#' @seealso [cluster_map()], [cluster_pmap()]
#' @examples
#' cl <- make_cluster(2)
#' cluster_map2(cl, c(a = 1, b = 2), 3:4, function(x, y) x * y)
#' cluster_map2_chr(cl, c("x", "y"), "z", paste0)
#' tryCatch(cluster_map2(cl, 1:2, list(1, "a"), `+`), clutch_task_error = function(e) e$element)
#' stop_cluster(cl)
#' @export
cluster_map2 <- new_map(c(".x", ".y"), function() map_two(environment()))

#' @rdname cluster_map2
#' @usage NULL
#' @export
cluster_walk2 <- new_map(c(".x", ".y"), function() {
  values <- map_two(environment(), walk = TRUE)
  invisible(if (is_job(values)) values else .x)
})

#' Apply a function to elements of several vectors, on the nodes of a cluster
#'
#' @description
#' The function gets the first elements of all, then the second elements, and so on. With a data
#' frame it gets the rows.
#'
#' `cluster_pmap_dbl()`, `_int()`, `_chr()`, `_lgl()`, `_dfr()` and `cluster_pwalk()` have the same
#' arguments, and values as told below. What holds for all maps is on the page of [cluster_map()].
#'
#' @inheritParams cluster_map
#' @param .l list of vectors or lists of the same length, or a data frame. A vector of length one
#'   goes with all elements of the others. Names in the list are names of arguments of `.f`.
#' @param .f function of as many elements as `.l` has vectors; or as in [cluster_map()]. In a
#'   formula they are `..1`, `..2` and so on.
#' @return
#' * `cluster_pmap()`: list with one value for each row, and the names of the first vector in `.l`.
#' * `cluster_pmap_dbl()`, `_int()`, `_chr()`, `_lgl()`: vector with one value for each row, and the
#'   names of the first vector in `.l`.
#' * `cluster_pmap_dfr()`: data frame of all rows.
#' * `cluster_pwalk()`: `.l`, invisibly.
#' @section Errors: As in [cluster_map()]; `element` of an error is the number of the row.
#'   `clutch_argument`: the lengths do not match, or `.l` is no list.
#'   ```
#'   tryCatch(cluster_pmap(cl, list(1:2, 1:3), sum), clutch_argument = conditionMessage)
#'   #> `.l[[1]]` has 2 elements and `.l[[2]]` has 3
#'   ```
#' @seealso [cluster_map()], [cluster_map2()]
#' @examples
#' cl <- make_cluster(2)
#' runs <- data.frame(n = c(10, 20), mean = c(0, 5))
#' cluster_pmap(cl, runs, function(n, mean) summary(rnorm(n, mean)), .seed = 1)
#' cluster_pmap_dbl(cl, list(1:2, 3, 5:6), sum)
#' tryCatch(cluster_pmap(cl, runs, function(n) n), clutch_task_error = function(e) e$element)
#' stop_cluster(cl)
#' @export
cluster_pmap <- new_map(".l", function() map_list(environment()))

#' @rdname cluster_pmap
#' @usage NULL
#' @export
cluster_pwalk <- new_map(".l", function() {
  values <- map_list(environment(), walk = TRUE)
  invisible(if (is_job(values)) values else .l)
})

#' Apply a function to elements and their names, on the nodes of a cluster
#'
#' @description
#' The function gets each element and its name. Where the vector has no names, it gets each element
#' and its number.
#'
#' `cluster_imap_dbl()`, `_int()`, `_chr()`, `_lgl()`, `_dfr()` and `cluster_iwalk()` have the same
#' arguments, and values as told below. What holds for all maps is on the page of [cluster_map()].
#'
#' @inheritParams cluster_map
#' @param .x vector or list. Its elements are the first argument of `.f`.
#' @param .f function of an element and its name (string) or number (integer); or as in
#'   [cluster_map()]. In a formula they are `.x` and `.y`.
#' @return
#' * `cluster_imap()`: list with one value for each element, and the names of `.x`.
#' * `cluster_imap_dbl()`, `_int()`, `_chr()`, `_lgl()`: vector with one value for each element, and
#'   the names of `.x`.
#' * `cluster_imap_dfr()`: data frame of all rows.
#' * `cluster_iwalk()`: `.x`, invisibly.
#' @section Errors: As in [cluster_map()]:
#'   ```
#'   tryCatch(cluster_imap(cl, list(1, "a"), `+`), clutch_task_error = function(e) e$element)
#'   #> 2
#'   ```
#' @seealso [cluster_map()], [cluster_map2()]
#' @examples
#' cl <- make_cluster(2)
#' cluster_imap_chr(cl, c(a = "x", b = "y"), function(x, name) paste(name, x))
#' cluster_imap_int(cl, c(10L, 20L), function(x, i) x + i)
#' cluster_iwalk(cl, c(a = 1), function(x, name) cat(name, "is", x, "\n"))
#' stop_cluster(cl)
#' @export
cluster_imap <- new_map(".x", function() map_indexed(environment()))

#' @rdname cluster_imap
#' @usage NULL
#' @export
cluster_iwalk <- new_map(".x", function() {
  values <- map_indexed(environment(), walk = TRUE)
  invisible(if (is_job(values)) values else .x)
})

#' How often the task at hand was started
#'
#' @return In a task of [cluster_map()] or [cluster_submit()]: integer, 1 for the first attempt,
#'   more when its node has died before and `.retries` allows that. Elsewhere `NA`.
#' @seealso [cluster_map()]
#' @examples
#' cl <- make_cluster(2)
#' cluster_map(cl, 1:2, function(i) clutch::task_attempt())
#' stop_cluster(cl)
#' task_attempt()
#' @export
task_attempt <- function() .Call(ffi_task_attempt)
