# This package remembers its state in these environments, in one R process.
#
# A fork of the session takes the turn before (src/core/loop/turns.h), so that the child finds
# nothing half-done. The child has no thread and cannot use the clusters of its parent. When it is
# about to start something, it gets a session of its own (forget_parents(),
# clu_session_begin_in_child()). Handles know by an attribute whose they are.

# A session remembers these.
#   servers      fork servers: key -> list(handle, tmp, log, env, report), see launch-fork-server.R
#   cleans       the process that cleans up after them when it ends, see clean_at_end()
#   own_servers  weak references to those of one cluster, by what ends them, see own_server()
#   parallel     the namespace of package parallel
#   callers      namespaces of other packages that call as parallel does (snow, doSNOW)
#   oom_kills    how many kills by the out-of-memory killer have been attributed, see machine-oom.R
#   oom_files, oom_group      the files that count them, and the control group these are of
#   search, known_classes     see code-globals.R
#   forward      the connection to the session's machine, from another host: forward-ask.R
#   locks_there  which process has a lock of that machine, by its name: state-lock.R
#   unsure, forward_stays    see forward-serve.R and forward-ask.R
#   source       copies of packages that load_all() has made, see code-source.R
#   own, pool                 the session's own cluster, and nodes for mclapply(): cluster-own.R
#   watches, watch            what is waited for while R is idle; the one used last: see task-idle.R
#   daemons, crew, crew_tasks, crew_launcher    programs that run daemons of mirai and workers of
#                        crew, see adapt-mirai.R and adapt-crew.R
#   otel, trace_provider, tracer, traces, spans, has_spans    see event-otel.R
#   failed       the last map or task that has failed, or its size: see task-failed.R
#   listeners    who hears of events, by name, see event-tell.R
#   log, log_failed    the file of the log, and what cannot be written to, see event-log.R
#   machine_memory    MB of this machine, see trace-memory.R
#   links        link processes to other hosts, see hosts-link.R
#   tree_from    so many hosts and more are started as a tree, see hosts-tree.R
#   slurm_arrays how many tasks an array of Slurm's may have, see slurm-job.R
#   clusters     how many there were
#   is_child     this is a forked child of a session
#   journal_runs, journal_maps, journal_jobs, journal_of_loops    see journal-map.R,
#                adapt-foreach.R
#   profiling    the process that makes a profile: cluster_profile()
#   tests        the fork server of cluster_test(), see test-server.R
#   made_for_loops    registerDoClutch() has made the cluster that is registered
#   on_new_nodes what is told of nodes that are made for mclapply()
#   travel       recipes that users have registered, see code-travel.R
#   states       pointers to shared state, by its name, see state-handles.R
#   actors, actor_number, sees_to_actors, actors_seen    see actor-actor.R
#   libraries    files of compiled code that have come, by their paths, see code-recipes.R
#   shell        lines of programs for a shell, by name, see base-shell.R
#   place        name of this machine, and this session's folder: where nodes look for it
#   prompts      elements that have called browser(), see task-prompt.R
#   read_line    in tests: a function in place of readline(), see task-prompt.R
#   called       what the next map is called, see task-job-label.R
#   signals, s4, task_is_also see adapt-register.R and adapt-future.R
the <- new.env(parent = emptyenv())
the$oom_kills <- 0
the$clusters <- 0
the$servers <- list()
the$shell <- list()
the$watches <- list()
the$own_servers <- list()
the$daemons <- list()
the$crew <- list()
the$crew_tasks <- list()
the$links <- list()
the$held <- list()
the$slurm_arrays <- list()
the$listeners <- list()
the$has_spans <- FALSE
the$prompts <- list()
the$states <- new.env(parent = emptyenv())
the$tree_from <- 50L
the$actors <- new.env(parent = emptyenv())
the$actor_number <- the$actors_seen <- 0
the$actors_left <- NULL # records, see leave_home()
the$sees_to_actors <- FALSE

# In a forked child of a session, as in parallel::mclapply(), what is remembered is the parent's,
# and its clusters cannot be used. So who is about to start something here forgets it.
forget_parents <- function() {
  if (!.Call(ffi_session_in_child)) return(invisible())
  the$is_child <- TRUE
  for (w in the$watches) w$gone <- TRUE
  the$watches <- the$servers <- the$own_servers <- the$daemons <- the$crew <-
    the$links <- the$held <- list()
  the$actors <- new.env(parent = emptyenv())
  the$watch <- the$own <- the$pool <- the$on_new_nodes <- the$tests <- NULL
  is_ours <- isNamespaceLoaded("parallel") &&
    inherits(parallel::getDefaultCluster(), "clutch_cluster")
  if (is_ours) parallel::setDefaultCluster(NULL)
  invisible()
}

# A fork server or node remembers these. Nothing of it is used in a session.
#   serving, joined      it runs the loop of a node; it has joined a cluster over TCP
#   seed, announce, nice what the nodes of a fork server are given
#   variables            environment variables that they are given, as they were before; NA: not set
#   libraries            where a fork server has found packages when it was started
#   by_program           a fork server that starts nodes executes R's program, not its front end
#   later                R's own packages that a node is still to attach
#   attached, lacks      packages attached for a job; those that could not be, and why
#   stay                 of a fork server that may serve another session, see node-stay.R
#   number, of_programs  that of the settings; those of nodes that run programs, see node-programs.R
#   tests                what is ready for test files, list(env, has_helpers, recorder): test-node.R
#   calls                the stack of the task that has failed
#   frozen, links, copy  a copy for the task at hand; connections to copies; in a copy: its state.
#                        See node-frozen.R
#   handler              number of the frame in which an interrupt is handled
#   browse, debugged     of a task that has called browser(); functions that are debugged for its
#                        job: see node-browse.R
#   session_at, is_beside    where the session is, and whether that is here; see there, too
#   loop_frame           see node-stack.R
the_node <- new.env(parent = emptyenv())

# An observer remembers its views.
the_observer <- new.env(parent = emptyenv())
