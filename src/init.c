/* Registration of the entry points with R, by file. src/r/entry-points.h declares them. */
#include <R_ext/Rdynload.h>

#include "r/r-api.h"
#include "r/share.h"
#include "r/turn.h"

#define ENTRY(name, n) \
  { #name, (DL_FUNC)&name, n }

/* Those that use the session: they have the turn at it (r/turn.h). By the file that has them. */
/* clang-format off: one a line */
#define IN_TURN(X)              \
  /* r/session/call.c */        \
  X(ffi_call_cancel, 1)         \
  X(ffi_call_scope_begin, 3)    \
  X(ffi_node_send, 4)           \
  X(ffi_node_tell, 3)           \
  X(ffi_node_recv, 1)           \
  X(ffi_node_ready, 1)          \
  X(ffi_any_recv, 1)            \
  /* r/session/acceptor.c */    \
  X(ffi_acceptor_open, 4)       \
  X(ffi_can_listen, 1)          \
  X(ffi_acceptor_secret, 1)     \
  X(ffi_acceptor_node, 3)       \
  X(ffi_acceptor_spawn, 5)      \
  X(ffi_acceptor_wait, 3)       \
  X(ffi_acceptor_report, 1)     \
  X(ffi_acceptor_close, 1)      \
  /* r/session/view.c */        \
  X(ffi_view_new, 3)            \
  X(ffi_view_nodes, 4)          \
  X(ffi_view_pass, 3)           \
  X(ffi_view_tell, 4)           \
  X(ffi_view_stop, 1)           \
  /* r/session/psock.c */       \
  X(ffi_psock_node, 1)          \
  X(ffi_psock_spawn, 4)         \
  X(ffi_psock_is_ready, 2)      \
  /* r/session/fork-server.c */ \
  X(ffi_server_start, 4)        \
  X(ffi_server_send, 3)         \
  X(ffi_server_wait, 2)         \
  X(ffi_server_settings, 3)     \
  X(ffi_server_applied, 3)      \
  X(ffi_server_info, 1)         \
  X(ffi_servers_machine, 3)     \
  X(ffi_node_use, 1)            \
  X(ffi_server_close, 2)        \
  /* r/session/link.c */        \
  X(ffi_link_start, 5)          \
  X(ffi_link_await, 1)          \
  X(ffi_link_info, 1)           \
  X(ffi_link_secrets, 1)        \
  X(ffi_link_host, 2)           \
  X(ffi_link_view, 3)           \
  X(ffi_link_command, 4)        \
  X(ffi_link_hosts, 1)          \
  X(ffi_link_close, 2)          \
  /* r/session/node.c */        \
  X(ffi_nodes_spawn, 3)         \
  X(ffi_nodes_wait, 2)          \
  X(ffi_nodes_stop, 3)          \
  X(ffi_node_info, 1)           \
  X(ffi_node_swap, 2)           \
  X(ffi_node_child_pid, 1)      \
  X(ffi_node_lost, 1)           \
  /* r/tasks/task-drive.c */    \
  X(ffi_tasks_step, 4)          \
  /* r/tasks/task-hosts.c */    \
  X(ffi_tasks_host, 6)          \
  X(ffi_tasks_host_there, 2)    \
  X(ffi_tasks_host_gone, 2)     \
  X(ffi_tasks_hosts_idle, 1)    \
  X(ffi_tasks_desired, 2)       \
  X(ffi_tasks_are_gone, 2)      \
  /* r/tasks/task-life.c */     \
  X(ffi_tasks_new, 3)           \
  X(ffi_tasks_show, 2)          \
  X(ffi_tasks_idle, 2)          \
  X(ffi_tasks_idle_nodes, 1)    \
  X(ffi_tasks_use, 1)           \
  X(ffi_tasks_attach, 2)        \
  X(ffi_tasks_attach_all, 2)    \
  X(ffi_job_new, 6)             \
  X(ffi_job_name, 3)            \
  X(ffi_job_start, 2)           \
  X(ffi_job_end, 2)             \
  X(ffi_job_outcome, 1)         \
  X(ffi_job_drop_value, 1)      \
  X(ffi_job_fail_pending, 2)    \
  /* r/tasks/task-budget.c */   \
  X(ffi_tasks_budget, 3)        \
  X(ffi_tasks_map_begins, 3)    \
  X(ffi_tasks_map_ends, 2)      \
  /* r/tasks/task-submit.c */   \
  X(ffi_submit, 4)              \
  X(ffi_task_value, 1)          \
  X(ffi_map_begin, 5)           \
  X(ffi_map_values, 1)          \
  /* r/tasks/task-query.c */    \
  X(ffi_job_state, 1)           \
  X(ffi_job_finished, 1)        \
  X(ffi_job_ready, 1)           \
  X(ffi_job_values, 1)          \
  X(ffi_values_typed, 3)        \
  X(ffi_job_plain_values, 1)    \
  X(ffi_job_size, 1)            \
  X(ffi_job_failures, 2)        \
  X(ffi_job_hear, 2)            \
  X(ffi_job_handler, 1)         \
  X(ffi_job_hearing, 2)         \
  X(ffi_tasks_unheard, 1)       \
  X(ffi_job_relay, 1)           \
  X(ffi_tasks_open, 1)          \
  X(ffi_tasks_jobs, 1)          \
  X(ffi_tasks_deaths, 1)        \
  X(ffi_tasks_ask, 2)           \
  X(ffi_tasks_unclear, 1)       \
  X(ffi_tasks_word, 3)          \
  X(ffi_tasks_unlimited, 1)     \
  X(ffi_tasks_trace, 1)         \
  X(ffi_tasks_memory, 1)        \
  X(ffi_job_trace, 3)           \
  X(ffi_job_number, 1)          \
  X(ffi_job_label, 1)           \
  X(ffi_tasks_open_since, 1)    \
  X(ffi_stream_jump, 2)         \
  /* r/tasks/task-stacks.c */   \
  X(ffi_stacks, 2)              \
  /* r/tasks/task-news.c */     \
  X(ffi_job_await, 1)           \
  X(ffi_tasks_news, 1)          \
  X(ffi_tasks_notes, 1)         \
  X(ffi_tasks_wait, 1)          \
  /* r/system.c */              \
  X(ffi_budget_give, 1)         \
  X(ffi_budget_take, 3)
/* clang-format on */

#define PARAMETERS_1 SEXP a
#define PARAMETERS_2 PARAMETERS_1, SEXP b
#define PARAMETERS_3 PARAMETERS_2, SEXP c
#define PARAMETERS_4 PARAMETERS_3, SEXP d
#define PARAMETERS_5 PARAMETERS_4, SEXP e
#define PARAMETERS_6 PARAMETERS_5, SEXP f
#define VALUES_1 a
#define VALUES_2 a, b
#define VALUES_3 a, b, c
#define VALUES_4 a, b, c, d
#define VALUES_5 a, b, c, d, e
#define VALUES_6 a, b, c, d, e, f
#define DEFINE_WITH_TURN(name, n)              \
  static SEXP name##_in_turn(PARAMETERS_##n) { \
    int mine = clu_turn_enter(CLU_FRAME);      \
    SEXP x = name(VALUES_##n);                 \
    clu_turn_leave(mine);                      \
    return x;                                  \
  }
#define WITH_TURN(name, n) {#name, (DL_FUNC)&name##_in_turn, n},

IN_TURN(DEFINE_WITH_TURN)

/* clang-format off: one a line */
static const R_CallMethodDef entries[] = {IN_TURN(WITH_TURN)
                                          /* r/session/session.c */
                                          ENTRY(ffi_live_handles, 0),
                                          ENTRY(ffi_end_thread, 0),
                                          /* r/tasks/task-life.c */
                                          ENTRY(ffi_session_in_child, 0),
                                          /* r/session/psock.c */
                                          ENTRY(ffi_psock_listen, 3),
                                          ENTRY(ffi_psock_accept, 1),
                                          ENTRY(ffi_psock_ready, 2),
                                          ENTRY(ffi_psock_queue, 3),
                                          ENTRY(ffi_psock_flush, 2),
                                          ENTRY(ffi_psock_recv, 4),
                                          ENTRY(ffi_psock_awaited, 1),
                                          ENTRY(ffi_psock_close, 1),
                                          /* r/tasks/task-news.c */
                                          ENTRY(ffi_wake_descriptors, 0),
                                          ENTRY(ffi_wake, 0),
                                          ENTRY(ffi_wake_hold, 0),
                                          ENTRY(ffi_wake_seen, 0),
                                          /* r/node/fork-server-main.c */
                                          ENTRY(ffi_fork_server_begin, 2),
                                          ENTRY(ffi_fork_server_begins, 1),
                                          ENTRY(ffi_fork_server_expect, 1),
                                          ENTRY(ffi_fork_server_session, 0),
                                          ENTRY(ffi_fork_server_listen, 2),
                                          ENTRY(ffi_fork_server_keeps, 2),
                                          ENTRY(ffi_fork_server_count_oom, 1),
                                          ENTRY(ffi_fork_server_temp, 0),
                                          ENTRY(ffi_fork_server_rehearse, 0),
                                          ENTRY(ffi_fork_server_use_up, 1),
                                          ENTRY(ffi_fork_server_serve, 1),
                                          ENTRY(ffi_fork_server_answer, 3),
                                          /* r/node/host.c */
                                          ENTRY(ffi_host_begin, 2),
                                          ENTRY(ffi_host_protocol, 0),
                                          ENTRY(ffi_host_start, 2),
                                          /* r/node/join.c */
                                          ENTRY(ffi_join, 5),
                                          ENTRY(ffi_output_to, 1),
                                          /* r/node/stack.c */
                                          ENTRY(ffi_node_postpone, 0),
                                          /* r/node/node-loop.c */
                                          ENTRY(ffi_node_loop, 1),
                                          ENTRY(ffi_node_failed, 1),
                                          ENTRY(ffi_node_interrupted, 1),
                                          ENTRY(ffi_node_at_task, 0),
                                          ENTRY(ffi_node_closed, 0),
                                          ENTRY(ffi_node_is_asked, 0),
                                          ENTRY(ffi_node_end, 0),
                                          /* r/node/observer.c */
                                          ENTRY(ffi_observer_caller, 0),
                                          ENTRY(ffi_observer_views, 0),
                                          ENTRY(ffi_observer_read, 2),
                                          ENTRY(ffi_views_of, 2),
                                          ENTRY(ffi_view_numbers, 1),
                                          ENTRY(ffi_view_folder, 1),
                                          ENTRY(ffi_observer_end, 0),
                                          ENTRY(ffi_observer_machine, 0),
                                          ENTRY(ffi_observer_ask, 2),
                                          ENTRY(ffi_observer_stacks, 2),
                                          ENTRY(ffi_process_letter, 1),
                                          /* r/node/node-start.c */
                                          ENTRY(ffi_node_begin_joined, 1),
                                          ENTRY(ffi_is_node, 0),
                                          ENTRY(ffi_node_begin_exec, 4),
                                          ENTRY(ffi_node_program_done, 0),
                                          ENTRY(ffi_node_title, 1),
                                          /* r/node/node-tasks.c */
                                          ENTRY(ffi_work_sinks, 1),
                                          ENTRY(ffi_work_environment, 1),
                                          ENTRY(ffi_work_unreadable, 1),
                                          ENTRY(ffi_task_attempt, 0),
                                          /* r/node/relay.c */
                                          ENTRY(ffi_work_slim, 1),
                                          ENTRY(ffi_work_log, 2),
                                          ENTRY(ffi_work_message, 1),
                                          ENTRY(ffi_work_warning, 1),
                                          ENTRY(ffi_work_output, 0),
                                          /* r/tasks/task-options.c */
                                          ENTRY(ffi_options_set, 1),
                                          ENTRY(ffi_stream_of_seed, 1),
                                          /* r/globals/alone.c */
                                          ENTRY(ffi_code_is_short, 1),
                                          ENTRY(ffi_code_alone, 2),
                                          ENTRY(ffi_objects_alone, 1),
                                          /* r/globals/search-state.c */
                                          ENTRY(ffi_globals_new, 0),
                                          ENTRY(ffi_globals_pointer, 1),
                                          ENTRY(ffi_is_pointer, 1),
                                          /* r/globals/search.c */
                                          ENTRY(ffi_globals_search, 3),
                                          ENTRY(ffi_globals_locals, 5),
                                          /* r/socket/connection-read.c */
                                          ENTRY(ffi_connection_left, 2),
                                          /* r/socket/connection-write.c */
                                          ENTRY(ffi_connection_uncork, 2),
                                          /* r/socket/connection.c */
                                          ENTRY(ffi_connection_new, 7),
                                          ENTRY(ffi_connection_summary, 1),
                                          /* r/socket/find.c */
                                          ENTRY(ffi_socket_here, 1),
                                          /* r/socket/info.c */
                                          ENTRY(ffi_socket_info, 1),
                                          ENTRY(ffi_socket_table, 0),
                                          ENTRY(ffi_connection_fd, 1),
                                          ENTRY(ffi_socket_count, 0),
                                          /* r/socket/objects.c */
                                          ENTRY(ffi_socket_send, 2),
                                          ENTRY(ffi_socket_receive, 1),
                                          /* r/socket/open.c */
                                          ENTRY(ffi_socket_new, 2),
                                          ENTRY(ffi_socket_get_options, 1),
                                          ENTRY(ffi_socket_listen, 7),
                                          ENTRY(ffi_socket_connect, 10),
                                          ENTRY(ffi_socket_adopt, 2),
                                          ENTRY(ffi_socket_accept, 8),
                                          ENTRY(ffi_service_probe, 4),
                                          /* r/socket/socket-set.c */
                                          ENTRY(ffi_socket_set_new, 0),
                                          ENTRY(ffi_socket_set_add, 4),
                                          ENTRY(ffi_socket_set_remove, 2),
                                          ENTRY(ffi_socket_set_wait, 2),
                                          ENTRY(ffi_socket_set_count, 1),
                                          ENTRY(ffi_socket_set_close, 1),
                                          /* r/socket/transfer.c */
                                          ENTRY(ffi_socket_timeout, 2),
                                          ENTRY(ffi_socket_shutdown, 2),
                                          ENTRY(ffi_socket_end, 2),
                                          ENTRY(ffi_socket_drop, 1),
                                          ENTRY(ffi_socket_read, 3),
                                          ENTRY(ffi_socket_write, 2),
                                          ENTRY(ffi_socket_select, 3),
                                          /* r/json.c */
                                          ENTRY(ffi_json_numbers, 1),
                                          ENTRY(ffi_json_strings, 2),
                                          /* r/serialize.c */
                                          ENTRY(ffi_share, 1),
                                          /* r/share-splice.c */
                                          ENTRY(ffi_share_default, 1),
                                          /* r/share-vector.c */
                                          ENTRY(ffi_is_shared, 1),
                                          /* r/system.c */
                                          ENTRY(ffi_affinity_count, 0),
                                          ENTRY(ffi_thread_count, 0),
                                          ENTRY(ffi_is_sampled, 1),
                                          ENTRY(ffi_budget_held, 0),
                                          ENTRY(ffi_process_memory, 1),
                                          ENTRY(ffi_processes_are_there, 1),
                                          ENTRY(ffi_process_kill, 1),
                                          ENTRY(ffi_limits, 0),
                                          ENTRY(ffi_raise_fds, 1),
                                          ENTRY(ffi_system_can, 0),
                                          ENTRY(ffi_signal_name, 1),
                                          ENTRY(ffi_clock, 0),
                                          ENTRY(ffi_weak_new, 2),
                                          ENTRY(ffi_weak_get, 1),
                                          ENTRY(ffi_weak_value, 1),
                                          ENTRY(ffi_remove_folder, 1),
                                          ENTRY(ffi_mark_folder, 1),
                                          ENTRY(ffi_remove_unused, 1),
                                          ENTRY(ffi_random_seeds, 1),
                                          ENTRY(ffi_secret_bytes, 1),
                                          ENTRY(ffi_same_secret, 2),
                                          ENTRY(ffi_show_warning, 2),
                                          ENTRY(ffi_relay_simple, 6),
                                          ENTRY(ffi_output_append, 2),
                                          /* r/private-text.c */
                                          ENTRY(ffi_private_lines, 3),
                                          ENTRY(ffi_private_wipe, 1),
                                          ENTRY(ffi_private_write, 2),
                                          ENTRY(ffi_private_read, 2),
                                          {NULL, NULL, 0}};
/* clang-format on */

void R_init_clutch(DllInfo *dll);
void R_unload_clutch(DllInfo *dll);

void R_init_clutch(DllInfo *dll) {
  R_registerRoutines(dll, NULL, entries, NULL, NULL);
  R_useDynamicSymbols(dll, FALSE);
  R_forceSymbols(dll, TRUE);
  clu_shared_init(dll);
}

/* The code of the thread is about to go. */
void R_unload_clutch(DllInfo *dll) {
  (void)dll;
  clu_turn_end();
}
