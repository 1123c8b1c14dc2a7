/* The entry points of .Call, by the file that has them: they check, convert and call the core; see
 * r-api.h. This is the only list of them, with entry-points-actor.h. Each line has the name, the
 * number of arguments, and the arguments. IN_TURN: it uses the session, and has the turn at it
 * (r/base/turn.h); PLAIN: it does not. src/init.c registers them.
 */
#ifndef CLUTCH_ENTRY_POINTS_H
#define CLUTCH_ENTRY_POINTS_H

#ifndef R_NO_REMAP
#define R_NO_REMAP
#endif
#include <Rinternals.h>

#include "r/base/entry-points-actor.h"

/* clang-format off */
#define CLU_ENTRY_POINTS(IN_TURN, PLAIN)                                                         \
  /* r/session/session.c */                                                                      \
  IN_TURN(ffi_handle_end, 1, (SEXP x))                                                           \
  PLAIN(ffi_live_handles, 0, (void))                                                             \
  PLAIN(ffi_end_thread, 0, (void))                                                               \
  /* r/session/call.c */                                                                         \
  IN_TURN(ffi_call_cancel, 1, (SEXP frame))                                                      \
  IN_TURN(ffi_call_scope_begin, 3, (SEXP frame, SEXP same, SEXP frames))                         \
  IN_TURN(ffi_node_send, 4, (SEXP handle, SEXP data, SEXP frame, SEXP outer))                    \
  IN_TURN(ffi_node_tell, 3, (SEXP handle, SEXP fun, SEXP args))                                  \
  IN_TURN(ffi_node_was_called, 1, (SEXP handle))                                                 \
  IN_TURN(ffi_node_forget_calls, 1, (SEXP handle))                                               \
  IN_TURN(ffi_node_recv, 1, (SEXP handle))                                                       \
  IN_TURN(ffi_node_ready, 1, (SEXP handle))                                                      \
  IN_TURN(ffi_any_recv, 1, (SEXP nodes))                                                         \
  /* r/journal/journal.c */                                                                      \
  IN_TURN(ffi_journal_open, 4, (SEXP path, SEXP sync, SEXP lock, SEXP like))                     \
  IN_TURN(ffi_journal_shared, 1, (SEXP path))                                                    \
  IN_TURN(ffi_journal_error, 2, (SEXP x, SEXP flush))                                            \
  IN_TURN(ffi_journal_copy, 2, (SEXP from, SEXP to))                                             \
  IN_TURN(ffi_journal_counts, 1, (SEXP x))                                                       \
  IN_TURN(ffi_journal_add_job, 3, (SEXP x, SEXP key, SEXP object))                               \
  IN_TURN(ffi_journal_jobs, 1, (SEXP x))                                                         \
  IN_TURN(ffi_journal_job, 2, (SEXP x, SEXP k))                                                  \
  IN_TURN(ffi_journal_object, 2, (SEXP x, SEXP at))                                              \
  IN_TURN(ffi_journal_rows, 1, (SEXP x))                                                         \
  IN_TURN(ffi_journal_values, 5, (SEXP journal, SEXP keys, SEXP as, SEXP seed, SEXP wants))      \
  IN_TURN(ffi_journal_kept, 2, (SEXP x, SEXP kept))                                              \
  IN_TURN(ffi_job_record, 5, (SEXP handle, SEXP journal, SEXP keys, SEXP as, SEXP seed))         \
  PLAIN(ffi_key, 4, (SEXP x, SEXP start, SEXP all, SEXP made))                                   \
  PLAIN(ffi_element_keys, 3, (SEXP elements, SEXP start, SEXP made))                             \
  PLAIN(ffi_file_new, 2, (SEXP path, SEXP text))                                                 \
  /* r/session/acceptor.c */                                                                     \
  IN_TURN(ffi_acceptor_open, 4, (SEXP host, SEXP ports, SEXP backlog, SEXP secret))              \
  IN_TURN(ffi_can_listen, 1, (SEXP host))                                                        \
  IN_TURN(ffi_acceptor_secret, 1, (SEXP acceptor))                                               \
  IN_TURN(ffi_acceptor_node, 3, (SEXP acceptor, SEXP rank, SEXP settings))                       \
  IN_TURN(ffi_acceptor_spawn, 5, (SEXP acceptor, SEXP handle, SEXP argv, SEXP envp, SEXP how))   \
  IN_TURN(ffi_acceptor_wait, 3, (SEXP acceptor, SEXP n, SEXP seconds))                           \
  IN_TURN(ffi_acceptor_report, 1, (SEXP acceptor))                                               \
  IN_TURN(ffi_acceptor_close, 1, (SEXP acceptor))                                                \
  /* r/session/view.c */                                                                         \
  IN_TURN(ffi_view_new, 3, (SEXP number, SEXP nodes, SEXP texts))                                \
  IN_TURN(ffi_view_nodes, 4, (SEXP view, SEXP handles, SEXP ranks, SEXP hosts))                  \
  IN_TURN(ffi_view_pass, 3, (SEXP view, SEXP server, SEXP number))                               \
  IN_TURN(ffi_view_tell, 4, (SEXP view, SEXP kind, SEXP node, SEXP text))                        \
  IN_TURN(ffi_view_actor, 4, (SEXP view, SEXP number, SEXP name, SEXP label))                    \
  IN_TURN(ffi_view_stop, 1, (SEXP view))                                                         \
  /* r/session/psock.c */                                                                        \
  IN_TURN(ffi_psock_node, 1, (SEXP rank))                                                        \
  IN_TURN(ffi_psock_spawn, 4, (SEXP handle, SEXP argv, SEXP envp, SEXP how))                     \
  IN_TURN(ffi_psock_say, 2, (SEXP handle, SEXP text))                                            \
  PLAIN(ffi_psock_listen, 3, (SEXP host, SEXP ports, SEXP backlog))                              \
  PLAIN(ffi_psock_accept, 1, (SEXP listener))                                                    \
  PLAIN(ffi_psock_ready, 2, (SEXP list, SEXP seconds))                                           \
  PLAIN(ffi_psock_queue, 3, (SEXP x, SEXP object, SEXP epoch))                                   \
  PLAIN(ffi_psock_flush, 2, (SEXP x, SEXP seconds))                                              \
  PLAIN(ffi_psock_recv, 4, (SEXP x, SEXP seconds, SEXP bytes, SEXP node))                        \
  PLAIN(ffi_psock_awaited, 1, (SEXP x))                                                          \
  PLAIN(ffi_psock_close, 1, (SEXP x))                                                            \
  IN_TURN(ffi_psock_is_ready, 2, (SEXP handle, SEXP pid))                                        \
  /* r/session/fork-server.c */                                                                  \
  IN_TURN(ffi_server_start, 4, (SEXP file, SEXP argv, SEXP envp, SEXP log))                      \
  IN_TURN(ffi_server_take, 2, (SEXP path, SEXP seconds))                                         \
  IN_TURN(ffi_server_give, 2, (SEXP server, SEXP seconds))                                       \
  IN_TURN(ffi_server_let_go, 1, (SEXP server))                                                   \
  PLAIN(ffi_kept_end, 2, (SEXP path, SEXP seconds))                                              \
  IN_TURN(ffi_server_send, 3, (SEXP server, SEXP kind, SEXP object))                             \
  IN_TURN(ffi_server_wait, 2, (SEXP server, SEXP seconds))                                       \
  IN_TURN(ffi_server_settings, 3, (SEXP server, SEXP object, SEXP output))                       \
  IN_TURN(ffi_server_applied, 3, (SEXP server, SEXP seq, SEXP seconds))                          \
  IN_TURN(ffi_server_info, 1, (SEXP server))                                                     \
  IN_TURN(ffi_servers_machine, 3, (SEXP list, SEXP of_nodes, SEXP seconds))                      \
  IN_TURN(ffi_server_close, 2, (SEXP server, SEXP seconds))                                      \
  /* r/session/node.c */                                                                         \
  IN_TURN(ffi_node_use, 1, (SEXP handle))                                                        \
  IN_TURN(ffi_nodes_spawn, 3, (SEXP server, SEXP ranks, SEXP kind))                              \
  IN_TURN(ffi_nodes_wait, 2, (SEXP list, SEXP seconds))                                          \
  IN_TURN(ffi_nodes_await_end, 2, (SEXP list, SEXP seconds))                                     \
  IN_TURN(ffi_nodes_stop, 3, (SEXP list, SEXP grace_ms, SEXP seconds))                           \
  IN_TURN(ffi_node_info, 1, (SEXP handle))                                                       \
  IN_TURN(ffi_node_swap, 2, (SEXP handle, SEXP fresh))                                           \
  IN_TURN(ffi_node_child_pid, 1, (SEXP handle))                                                  \
  IN_TURN(ffi_node_lost, 1, (SEXP handle))                                                       \
  IN_TURN(ffi_node_deliver, 3, (SEXP handle, SEXP path, SEXP bytes))                             \
  /* r/session/link.c: other hosts. A link process, forked from a fork server of this session,   \
     holds one connection to each host. The fork server of a host is a handle as any other, with \
     which all of r/session/fork-server.c and ffi_nodes_spawn() work. */                         \
  IN_TURN(ffi_link_start, 5, (SEXP server, SEXP host, SEXP ports, SEXP times, SEXP tls))         \
  IN_TURN(ffi_link_await, 1, (SEXP link))                                                        \
  IN_TURN(ffi_link_info, 1, (SEXP link))                                                         \
  IN_TURN(ffi_link_secrets, 1, (SEXP link))                                                      \
  IN_TURN(ffi_link_host, 2, (SEXP link, SEXP rank))                                              \
  IN_TURN(ffi_link_view, 3, (SEXP link, SEXP number, SEXP view))                                 \
  IN_TURN(ffi_link_command, 4, (SEXP link, SEXP rank, SEXP node, SEXP carries))                  \
  IN_TURN(ffi_link_hosts, 1, (SEXP link))                                                        \
  IN_TURN(ffi_link_close, 2, (SEXP link, SEXP seconds))                                          \
  /* r/tasks/drive.c */                                                                          \
  IN_TURN(ffi_tasks_step, 4, (SEXP x, SEXP job, SEXP seconds, SEXP known))                       \
  /* r/tasks/growth.c */                                                                         \
  IN_TURN(ffi_tasks_growth, 4, (SEXP x, SEXP server, SEXP kind, SEXP numbers))                   \
  IN_TURN(ffi_tasks_calls, 2, (SEXP x, SEXP list))                                               \
  IN_TURN(ffi_tasks_growth_is_blocked, 1, (SEXP x))                                              \
  IN_TURN(ffi_tasks_grown, 1, (SEXP x))                                                          \
  IN_TURN(ffi_tasks_end_growth, 1, (SEXP x))                                                     \
  IN_TURN(ffi_tasks_growth_failure, 1, (SEXP x))                                                 \
  /* r/tasks/hosts.c */                                                                          \
  IN_TURN(ffi_tasks_host, 7,                                                                     \
          (SEXP x, SEXP number, SEXP nodes, SEXP server, SEXP command, SEXP task, SEXP idle))    \
  IN_TURN(ffi_tasks_host_there, 2, (SEXP x, SEXP number))                                        \
  IN_TURN(ffi_tasks_host_gone, 2, (SEXP x, SEXP number))                                         \
  IN_TURN(ffi_tasks_hosts_idle, 1, (SEXP x))                                                     \
  IN_TURN(ffi_tasks_desired, 2, (SEXP x, SEXP seconds))                                          \
  IN_TURN(ffi_tasks_are_gone, 2, (SEXP x, SEXP nodes))                                           \
  /* r/tasks/life.c */                                                                           \
  IN_TURN(ffi_tasks_new, 3, (SEXP handles, SEXP grace, SEXP most))                               \
  PLAIN(ffi_session_in_child, 0, (void))                                                         \
  IN_TURN(ffi_tasks_show, 2, (SEXP x, SEXP view))                                                \
  IN_TURN(ffi_tasks_idle, 2, (SEXP x, SEXP seconds))                                             \
  IN_TURN(ffi_tasks_idle_nodes, 1, (SEXP x))                                                     \
  IN_TURN(ffi_tasks_use, 1, (SEXP x))                                                            \
  IN_TURN(ffi_tasks_attach, 2, (SEXP x, SEXP index))                                             \
  IN_TURN(ffi_tasks_keep_node, 4, (SEXP x, SEXP rank, SEXP pid, SEXP keeps))                     \
  IN_TURN(ffi_tasks_busy, 2, (SEXP x, SEXP ranks))                                               \
  IN_TURN(ffi_tasks_attach_all, 2, (SEXP x, SEXP nodes))                                         \
  IN_TURN(ffi_job_new, 7,                                                                        \
          (SEXP x, SEXP parts, SEXP elements, SEXP spec, SEXP seed, SEXP only, SEXP needs))      \
  IN_TURN(ffi_job_needs, 2, (SEXP job, SEXP from))                                               \
  IN_TURN(ffi_job_give, 3, (SEXP x, SEXP job, SEXP value))                                       \
  IN_TURN(ffi_job_lacks, 1, (SEXP job))                                                          \
  IN_TURN(ffi_tasks_share, 1, (SEXP x))                                                          \
  IN_TURN(ffi_job_name, 3, (SEXP job, SEXP name, SEXP code))                                     \
  IN_TURN(ffi_job_start, 2, (SEXP x, SEXP job))                                                  \
  IN_TURN(ffi_job_end, 2, (SEXP job, SEXP wait))                                                 \
  IN_TURN(ffi_job_outcome, 1, (SEXP job))                                                        \
  IN_TURN(ffi_job_drop_value, 1, (SEXP job))                                                     \
  IN_TURN(ffi_job_fail_pending, 2, (SEXP job, SEXP cause))                                       \
  /* r/tasks/budget.c */                                                                         \
  IN_TURN(ffi_tasks_budget, 3, (SEXP x, SEXP size, SEXP under))                                  \
  IN_TURN(ffi_tasks_map_begins, 3, (SEXP x, SEXP tokens, SEXP own))                              \
  IN_TURN(ffi_tasks_map_ends, 2, (SEXP x, SEXP own))                                             \
  IN_TURN(ffi_memory_budget, 1, (SEXP bytes))                                                    \
  IN_TURN(ffi_polite, 1, (SEXP polite))                                                          \
  PLAIN(ffi_memory_limit, 0, (void))                                                             \
  IN_TURN(ffi_job_room, 1, (SEXP job))                                                           \
  IN_TURN(ffi_tasks_room, 1, (SEXP x))                                                           \
  IN_TURN(ffi_tasks_held, 1, (SEXP x))                                                           \
  /* r/tasks/needs.c */                                                                          \
  IN_TURN(ffi_tasks_resources, 5, (SEXP x, SEXP kinds, SEXP cores, SEXP units, SEXP host_of))    \
  IN_TURN(ffi_tasks_granted, 1, (SEXP x))                                                        \
  /* r/tasks/query.c */                                                                          \
  IN_TURN(ffi_job_state, 1, (SEXP job))                                                          \
  IN_TURN(ffi_job_finished, 1, (SEXP job))                                                       \
  IN_TURN(ffi_job_ready, 1, (SEXP job))                                                          \
  IN_TURN(ffi_job_values, 1, (SEXP job))                                                         \
  IN_TURN(ffi_job_plain_values, 1, (SEXP job))                                                   \
  IN_TURN(ffi_job_in_order, 2, (SEXP job, SEXP bytes))                                           \
  IN_TURN(ffi_job_let_go, 1, (SEXP job))                                                         \
  IN_TURN(ffi_job_size, 1, (SEXP job))                                                           \
  IN_TURN(ffi_job_weight, 1, (SEXP job))                                                         \
  IN_TURN(ffi_tasks_queued, 1, (SEXP x))                                                         \
  IN_TURN(ffi_tasks_oldest, 1, (SEXP x))                                                         \
  IN_TURN(ffi_job_failures, 2, (SEXP job, SEXP from))                                            \
  IN_TURN(ffi_job_stream, 1, (SEXP job))                                                         \
  IN_TURN(ffi_job_keep, 2, (SEXP job, SEXP work))                                                \
  IN_TURN(ffi_job_kept, 1, (SEXP job))                                                           \
  IN_TURN(ffi_job_hear, 2, (SEXP job, SEXP handler))                                             \
  IN_TURN(ffi_job_handler, 1, (SEXP job))                                                        \
  IN_TURN(ffi_job_hearing, 2, (SEXP job, SEXP now))                                              \
  IN_TURN(ffi_tasks_unheard, 1, (SEXP x))                                                        \
  IN_TURN(ffi_job_relay, 1, (SEXP job))                                                          \
  IN_TURN(ffi_tasks_open, 1, (SEXP x))                                                           \
  IN_TURN(ffi_tasks_jobs, 1, (SEXP x))                                                           \
  IN_TURN(ffi_tasks_deaths, 1, (SEXP x))                                                         \
  IN_TURN(ffi_tasks_ask, 2, (SEXP x, SEXP seconds))                                              \
  IN_TURN(ffi_tasks_unclear, 1, (SEXP x))                                                        \
  IN_TURN(ffi_tasks_word, 3, (SEXP x, SEXP index, SEXP counts))                                  \
  IN_TURN(ffi_tasks_unlimited, 1, (SEXP x))                                                      \
  IN_TURN(ffi_tasks_trace, 1, (SEXP x))                                                          \
  IN_TURN(ffi_tasks_memory, 1, (SEXP x))                                                         \
  IN_TURN(ffi_job_trace, 3, (SEXP x, SEXP job, SEXP most))                                       \
  IN_TURN(ffi_job_number, 1, (SEXP job))                                                         \
  IN_TURN(ffi_job_label, 1, (SEXP job))                                                          \
  IN_TURN(ffi_tasks_open_since, 1, (SEXP x))                                                     \
  IN_TURN(ffi_stream_jump, 2, (SEXP state, SEXP n))                                              \
  /* r/tasks/stacks.c */                                                                         \
  IN_TURN(ffi_stacks, 2, (SEXP handles, SEXP seconds))                                           \
  IN_TURN(ffi_node_copy, 3, (SEXP handle, SEXP job, SEXP seconds))                               \
  IN_TURN(ffi_node_at, 1, (SEXP handle))                                                         \
  /* r/tasks/news.c */                                                                           \
  IN_TURN(ffi_job_await, 1, (SEXP job))                                                          \
  PLAIN(ffi_wake_descriptors, 0, (void))                                                         \
  PLAIN(ffi_wake, 0, (void))                                                                     \
  PLAIN(ffi_wake_hold, 0, (void))                                                                \
  PLAIN(ffi_wake_seen, 0, (void))                                                                \
  IN_TURN(ffi_tasks_news, 1, (SEXP x))                                                           \
  IN_TURN(ffi_tasks_notes, 1, (SEXP x))                                                          \
  IN_TURN(ffi_tasks_wait, 1, (SEXP x))                                                           \
  /* r/node/bridge.c */                                                                          \
  PLAIN(ffi_bridge_serve, 2, (SEXP is_here, SEXP folder))                                        \
  /* r/node/forwarder.c */                                                                       \
  PLAIN(ffi_forward_clients, 2, (SEXP host, SEXP path))                                          \
  PLAIN(ffi_forward_linked, 1, (SEXP has))                                                       \
  PLAIN(ffi_forward_delegates, 0, (void))                                                        \
  /* r/node/fork-server-main.c */                                                                \
  PLAIN(ffi_fork_server_begin, 2, (SEXP exec, SEXP idle))                                        \
  PLAIN(ffi_fork_server_begins, 1, (SEXP in_r))                                                  \
  PLAIN(ffi_fork_server_expect, 1, (SEXP n))                                                     \
  PLAIN(ffi_fork_server_session, 0, (void))                                                      \
  PLAIN(ffi_fork_server_listen, 2, (SEXP path, SEXP owns_folder))                                \
  PLAIN(ffi_fork_server_keeps, 2, (SEXP from, SEXP to))                                          \
  PLAIN(ffi_fork_server_count_oom, 1, (SEXP file))                                               \
  PLAIN(ffi_fork_server_temp, 0, (void))                                                         \
  PLAIN(ffi_fork_server_stays, 0, (void))                                                        \
  PLAIN(ffi_fork_server_offer, 1, (SEXP path))                                                   \
  PLAIN(ffi_fork_server_leave, 0, (void))                                                        \
  PLAIN(ffi_fork_server_await, 1, (SEXP seconds))                                                \
  PLAIN(ffi_fork_server_taken, 0, (void))                                                        \
  PLAIN(ffi_fork_server_serve, 1, (SEXP env))                                                    \
  PLAIN(ffi_fork_server_answer, 3, (SEXP kind, SEXP seq, SEXP object))                           \
  /* r/node/host.c */                                                                            \
  PLAIN(ffi_host_begin, 2, (SEXP settings, SEXP secrets))                                        \
  PLAIN(ffi_host_protocol, 0, (void))                                                            \
  PLAIN(ffi_host_start, 2, (SEXP argv, SEXP text))                                               \
  /* r/node/join.c */                                                                            \
  PLAIN(ffi_join, 5, (SEXP host, SEXP port, SEXP rank, SEXP seconds, SEXP local))                \
  PLAIN(ffi_output_to, 1, (SEXP path))                                                           \
  /* r/node/node-loop.c */                                                                       \
  PLAIN(ffi_node_loop, 1, (SEXP env))                                                            \
  PLAIN(ffi_node_failed, 1, (SEXP value))                                                        \
  PLAIN(ffi_node_interrupted, 1, (SEXP value))                                                   \
  PLAIN(ffi_node_at_task, 0, (void))                                                             \
  PLAIN(ffi_node_closed, 0, (void))                                                              \
  PLAIN(ffi_node_was_told, 0, (void))                                                            \
  PLAIN(ffi_node_end, 0, (void))                                                                 \
  /* r/node/stack.c */                                                                           \
  PLAIN(ffi_stack_interrupted, 0, (void))                                                        \
  /* r/node/frozen.c */                                                                          \
  PLAIN(ffi_frozen_wanted, 0, (void))                                                            \
  PLAIN(ffi_frozen_turn, 1, (SEXP root))                                                         \
  PLAIN(ffi_frozen_folder, 0, (void))                                                            \
  PLAIN(ffi_frozen_fork, 3, (SEXP path, SEXP output, SEXP kind))                                 \
  PLAIN(ffi_frozen_next, 1, (SEXP soon))                                                         \
  PLAIN(ffi_frozen_running, 1, (SEXP now))                                                       \
  PLAIN(ffi_frozen_drop, 0, (void))                                                              \
  PLAIN(ffi_frozen_taken, 0, (void))                                                             \
  /* r/node/console.c */                                                                         \
  PLAIN(ffi_console_begin, 0, (void))                                                            \
  PLAIN(ffi_frozen_console, 1, (SEXP fun))                                                       \
  /* r/node/observer.c */                                                                        \
  PLAIN(ffi_observer_caller, 0, (void))                                                          \
  PLAIN(ffi_observer_views, 0, (void))                                                           \
  PLAIN(ffi_observer_read, 2, (SEXP view, SEXP wish))                                            \
  PLAIN(ffi_views_of, 2, (SEXP pids, SEXP fds))                                                  \
  PLAIN(ffi_view_numbers, 1, (SEXP view))                                                        \
  PLAIN(ffi_view_folder, 1, (SEXP view))                                                         \
  PLAIN(ffi_observer_machine, 0, (void))                                                         \
  PLAIN(ffi_observer_end, 0, (void))                                                             \
  PLAIN(ffi_observer_ask, 2, (SEXP view, SEXP nodes))                                            \
  PLAIN(ffi_observer_stacks, 2, (SEXP view, SEXP questions))                                     \
  PLAIN(ffi_process_letter, 1, (SEXP pid))                                                       \
  /* r/node/node-start.c */                                                                      \
  PLAIN(ffi_node_is_asked, 0, (void))                                                            \
  PLAIN(ffi_node_begin_joined, 1, (SEXP problem))                                                \
  PLAIN(ffi_is_node, 0, (void))                                                                  \
  PLAIN(ffi_node_begin_exec, 4, (SEXP slot, SEXP tmp, SEXP program, SEXP server))                \
  PLAIN(ffi_node_program_done, 0, (void))                                                        \
  PLAIN(ffi_node_title, 1, (SEXP text))                                                          \
  /* r/node/warm-up.c */                                                                         \
  PLAIN(ffi_fork_server_warm_up, 0, (void))                                                      \
  PLAIN(ffi_fork_server_use_up, 1, (SEXP most))                                                  \
  /* r/node/job-state.c */                                                                       \
  PLAIN(ffi_work_sinks, 1, (SEXP output))                                                        \
  PLAIN(ffi_work_environment, 1, (SEXP old))                                                     \
  /* r/node/node-tasks.c */                                                                      \
  PLAIN(ffi_work_unreadable, 1, (SEXP failure))                                                  \
  PLAIN(ffi_task_state_begins, 0, (void))                                                        \
  PLAIN(ffi_task_attempt, 0, (void))                                                             \
  /* r/node/grant.c */                                                                           \
  PLAIN(ffi_set_threads, 1, (SEXP n))                                                            \
  /* r/node/relay.c */                                                                           \
  PLAIN(ffi_work_slim, 1, (SEXP cond))                                                           \
  PLAIN(ffi_work_log, 2, (SEXP cond, SEXP now))                                                  \
  PLAIN(ffi_work_message, 1, (SEXP cond))                                                        \
  PLAIN(ffi_work_warning, 1, (SEXP cond))                                                        \
  PLAIN(ffi_work_output, 0, (void))                                                              \
  /* r/tasks/options.c */                                                                        \
  PLAIN(ffi_options_set, 1, (SEXP names))                                                        \
  PLAIN(ffi_stream_of_seed, 1, (SEXP seed))                                                      \
  /* r/tasks/seeding.c */                                                                        \
  PLAIN(ffi_is_unseeded, 0, (void))                                                              \
  /* r/tasks/submit.c */                                                                         \
  IN_TURN(ffi_submit, 4, (SEXP cl, SEXP fun, SEXP code, SEXP also))                              \
  IN_TURN(ffi_task_value, 1, (SEXP task))                                                        \
  IN_TURN(ffi_map_begin, 5, (SEXP cl, SEXP elements, SEXP fun, SEXP globals, SEXP code))         \
  IN_TURN(ffi_map_values, 1, (SEXP job))                                                         \
  /* r/tasks/typed-values.c */                                                                   \
  IN_TURN(ffi_values_typed, 3, (SEXP values, SEXP types, SEXP empty))                            \
  /* r/session/forward.c */                                                                      \
  IN_TURN(ffi_forward_new, 1, (SEXP delegates))                                                  \
  IN_TURN(ffi_forward_add, 2, (SEXP handle, SEXP clients))                                       \
  IN_TURN(ffi_forward_await, 3, (SEXP handle, SEXP number, SEXP seconds))                        \
  IN_TURN(ffi_forward_none_lost, 1, (SEXP handle))                                               \
  /* r/mesh/mesh.c */                                                                            \
  IN_TURN(ffi_mesh_new, 2, (SEXP count, SEXP folder))                                            \
  PLAIN(ffi_mesh_path, 1, (SEXP x))                                                              \
  PLAIN(ffi_mesh_died, 4, (SEXP x, SEXP rank, SEXP signal, SEXP status))                         \
  PLAIN(ffi_mesh_end, 1, (SEXP x))                                                               \
  PLAIN(ffi_mesh_ranks, 1, (SEXP x))                                                             \
  PLAIN(ffi_mesh_join, 3, (SEXP path, SEXP count, SEXP rank))                                    \
  PLAIN(ffi_mesh_waited, 0, (void))                                                              \
  PLAIN(ffi_mesh_leave, 1, (SEXP failed))                                                        \
  PLAIN(ffi_mesh_forget, 0, (void))                                                              \
  PLAIN(ffi_mesh_me, 0, (void))                                                                  \
  PLAIN(ffi_mesh_meet, 3, (SEXP kind, SEXP root, SEXP op))                                       \
  /* r/mesh/hub.c */                                                                             \
  IN_TURN(ffi_hub_new, 2, (SEXP host_of, SEXP handles))                                          \
  IN_TURN(ffi_hub_await, 2, (SEXP x, SEXP seconds))                                              \
  IN_TURN(ffi_hub_lost, 1, (SEXP x))                                                             \
  IN_TURN(ffi_hub_died, 4, (SEXP x, SEXP rank, SEXP signal, SEXP status))                        \
  IN_TURN(ffi_hub_end, 1, (SEXP x))                                                              \
  /* r/mesh/messages.c */                                                                        \
  PLAIN(ffi_mesh_send, 3, (SEXP to, SEXP value, SEXP tag))                                       \
  PLAIN(ffi_mesh_check_ranks, 1, (SEXP x))                                                       \
  PLAIN(ffi_mesh_receive, 4, (SEXP from, SEXP tag, SEXP timeout, SEXP look))                     \
  /* r/mesh/reduce.c */                                                                          \
  PLAIN(ffi_mesh_reduce, 4, (SEXP x, SEXP op, SEXP kind, SEXP root))                             \
  /* r/state/handle.c */                                                                         \
  PLAIN(ffi_state_new, 2, (SEXP kind, SEXP folder))                                              \
  PLAIN(ffi_state_name, 1, (SEXP pointer))                                                       \
  PLAIN(ffi_state_open, 2, (SEXP name, SEXP kind))                                               \
  PLAIN(ffi_state_close, 1, (SEXP pointer))                                                      \
  /* r/state/lock.c */                                                                           \
  PLAIN(ffi_lock_with, 3, (SEXP x, SEXP timeout, SEXP env))                                      \
  PLAIN(ffi_lock_take, 2, (SEXP x, SEXP timeout))                                                \
  PLAIN(ffi_lock_info, 1, (SEXP x))                                                              \
  PLAIN(ffi_counter_add, 2, (SEXP x, SEXP by))                                                   \
  PLAIN(ffi_counter_set, 2, (SEXP x, SEXP value))                                                \
  PLAIN(ffi_rate_begin, 3, (SEXP x, SEXP each, SEXP burst))                                      \
  PLAIN(ffi_rate_wait, 3, (SEXP x, SEXP n, SEXP timeout))                                        \
  /* r/state/table.c */                                                                          \
  PLAIN(ffi_table_append, 2, (SEXP x, SEXP value))                                               \
  PLAIN(ffi_table_set, 3, (SEXP x, SEXP id, SEXP value))                                         \
  PLAIN(ffi_table_pop, 2, (SEXP x, SEXP timeout))                                                \
  PLAIN(ffi_table_read, 2, (SEXP x, SEXP since))                                                 \
  PLAIN(ffi_table_count, 1, (SEXP x))                                                            \
  PLAIN(ffi_table_reopen, 1, (SEXP x))                                                           \
  PLAIN(ffi_state_give_back, 2, (SEXP x, SEXP id))                                               \
  /* r/globals/alone.c */                                                                        \
  PLAIN(ffi_code_is_short, 1, (SEXP code))                                                       \
  PLAIN(ffi_code_alone, 2, (SEXP code, SEXP env))                                                \
  PLAIN(ffi_objects_alone, 1, (SEXP objects))                                                    \
  /* r/globals/search-state.c */                                                                 \
  PLAIN(ffi_globals_new, 0, (void))                                                              \
  PLAIN(ffi_globals_pointer, 1, (SEXP x))                                                        \
  /* r/globals/search.c */                                                                       \
  PLAIN(ffi_globals_locals, 5, (SEXP x, SEXP code, SEXP env, SEXP top, SEXP frame))              \
  PLAIN(ffi_globals_search, 3, (SEXP x, SEXP roots, SEXP also))                                  \
  /* r/globals/source.c */                                                                       \
  PLAIN(ffi_source_packages, 0, (void))                                                          \
  PLAIN(ffi_closures_in, 1, (SEXP env))                                                          \
  /* r/socket/connection-read.c */                                                               \
  PLAIN(ffi_connection_left, 2, (SEXP handle, SEXP whole))                                       \
  /* r/socket/connection-write.c */                                                              \
  PLAIN(ffi_connection_uncork, 2, (SEXP handle, SEXP value))                                     \
  /* r/socket/connection.c */                                                                    \
  PLAIN(ffi_connection_summary, 1, (SEXP x))                                                     \
  PLAIN(ffi_connection_new, 7,                                                                   \
        (SEXP handle, SEXP description, SEXP class, SEXP mode, SEXP blocking, SEXP encoding,     \
         SEXP opener))                                                                           \
  /* r/socket/find.c */                                                                          \
  PLAIN(ffi_socket_here, 1, (SEXP x))                                                            \
  /* r/socket/info.c */                                                                          \
  PLAIN(ffi_socket_info, 1, (SEXP x))                                                            \
  PLAIN(ffi_socket_table, 0, (void))                                                             \
  PLAIN(ffi_connection_fd, 1, (SEXP x))                                                          \
  PLAIN(ffi_socket_count, 0, (void))                                                             \
  /* r/socket/objects.c */                                                                       \
  PLAIN(ffi_socket_send, 2, (SEXP x, SEXP object))                                               \
  PLAIN(ffi_socket_receive, 1, (SEXP x))                                                         \
  /* r/socket/open.c */                                                                          \
  PLAIN(ffi_socket_new, 2, (SEXP blocking, SEXP timeout))                                        \
  PLAIN(ffi_socket_get_options, 1, (SEXP x))                                                     \
  PLAIN(ffi_socket_listen, 7,                                                                    \
        (SEXP host, SEXP port, SEXP path, SEXP backlog, SEXP keep, SEXP options, SEXP slot))     \
  PLAIN(ffi_socket_connect, 10,                                                                  \
        (SEXP host, SEXP port, SEXP path, SEXP server, SEXP blocking, SEXP open, SEXP encoding,  \
         SEXP timeout, SEXP options, SEXP slot))                                                 \
  PLAIN(ffi_socket_adopt, 2, (SEXP fd, SEXP timeout))                                            \
  PLAIN(ffi_socket_accept, 8, (SEXP listener, SEXP blocking, SEXP open, SEXP encoding,           \
                               SEXP timeout, SEXP options, SEXP slot, SEXP wait))                \
  PLAIN(ffi_service_probe, 4, (SEXP x, SEXP host, SEXP ports, SEXP timeout))                     \
  /* r/socket/transfer.c */                                                                      \
  PLAIN(ffi_socket_timeout, 2, (SEXP x, SEXP seconds))                                           \
  PLAIN(ffi_socket_shutdown, 2, (SEXP x, SEXP how))                                              \
  PLAIN(ffi_socket_end, 2, (SEXP x, SEXP seconds))                                               \
  PLAIN(ffi_socket_drop, 1, (SEXP x))                                                            \
  PLAIN(ffi_socket_read, 3, (SEXP x, SEXP n, SEXP exact))                                        \
  PLAIN(ffi_socket_write, 2, (SEXP x, SEXP data))                                                \
  PLAIN(ffi_socket_select, 3, (SEXP list, SEXP write, SEXP timeout))                             \
  /* r/socket/socket-set.c */                                                                    \
  PLAIN(ffi_socket_set_new, 0, (void))                                                           \
  PLAIN(ffi_socket_set_add, 4, (SEXP x, SEXP list, SEXP want, SEXP names))                       \
  PLAIN(ffi_socket_set_remove, 2, (SEXP x, SEXP list))                                           \
  PLAIN(ffi_socket_set_wait, 2, (SEXP x, SEXP timeout))                                          \
  PLAIN(ffi_socket_set_count, 1, (SEXP x))                                                       \
  PLAIN(ffi_socket_set_close, 1, (SEXP x))                                                       \
  /* r/base/json.c */                                                                            \
  PLAIN(ffi_json_numbers, 1, (SEXP x))                                                           \
  PLAIN(ffi_json_strings, 2, (SEXP x, SEXP escaped))                                             \
  /* r/serialize/travel.c */                                                                     \
  PLAIN(ffi_is_pointer, 1, (SEXP x))                                                             \
  PLAIN(ffi_only_data, 3, (SEXP x, SEXP classes, SEXP large))                                    \
  PLAIN(ffi_copy_dots, 2, (SEXP from, SEXP to))                                                  \
  PLAIN(ffi_pointer_tag, 1, (SEXP x))                                                            \
  PLAIN(ffi_known_values, 1, (SEXP env))                                                         \
  PLAIN(ffi_address, 1, (SEXP x))                                                                \
  PLAIN(ffi_symbol_of, 1, (SEXP x))                                                              \
  /* r/serialize/serialize.c */                                                                  \
  PLAIN(ffi_share, 1, (SEXP x))                                                                  \
  /* r/share/splice.c */                                                                         \
  PLAIN(ffi_share_default, 1, (SEXP receivers))                                                  \
  /* r/share/vector.c */                                                                         \
  PLAIN(ffi_is_shared, 1, (SEXP x))                                                              \
  /* r/base/system.c */                                                                          \
  PLAIN(ffi_affinity_count, 0, (void))                                                           \
  PLAIN(ffi_thread_count, 0, (void))                                                             \
  PLAIN(ffi_is_sampled, 1, (SEXP by_thread))                                                     \
  IN_TURN(ffi_budget_take, 3, (SEXP n, SEXP of, SEXP under))                                     \
  IN_TURN(ffi_budget_give, 1, (SEXP n))                                                          \
  PLAIN(ffi_budget_held, 0, (void))                                                              \
  PLAIN(ffi_process_memory, 1, (SEXP pid))                                                       \
  PLAIN(ffi_processes_are_there, 1, (SEXP pids))                                                 \
  PLAIN(ffi_start_detached, 3, (SEXP argv, SEXP envp, SEXP log))                                 \
  PLAIN(ffi_run_program, 4, (SEXP argv, SEXP envp, SEXP log, SEXP seconds))                      \
  PLAIN(ffi_file_stamps, 1, (SEXP paths))                                                        \
  PLAIN(ffi_signals_hold, 0, (void))                                                             \
  PLAIN(ffi_signals_release, 0, (void))                                                          \
  PLAIN(ffi_process_kill, 1, (SEXP pid))                                                         \
  PLAIN(ffi_limits, 0, (void))                                                                   \
  PLAIN(ffi_raise_fds, 1, (SEXP n))                                                              \
  PLAIN(ffi_system_can, 0, (void))                                                               \
  PLAIN(ffi_signal_name, 1, (SEXP sig))                                                          \
  PLAIN(ffi_clock, 0, (void))                                                                    \
  PLAIN(ffi_weak_new, 2, (SEXP env, SEXP value))                                                 \
  PLAIN(ffi_weak_get, 1, (SEXP ref))                                                             \
  PLAIN(ffi_weak_value, 1, (SEXP ref))                                                           \
  PLAIN(ffi_remove_folder, 1, (SEXP path))                                                       \
  PLAIN(ffi_mark_folder, 1, (SEXP path))                                                         \
  PLAIN(ffi_remove_unused, 1, (SEXP path))                                                       \
  PLAIN(ffi_random_seeds, 1, (SEXP n))                                                           \
  PLAIN(ffi_secret_bytes, 1, (SEXP n))                                                           \
  PLAIN(ffi_same_secret, 2, (SEXP a, SEXP b))                                                    \
  PLAIN(ffi_output_append, 2, (SEXP path, SEXP text))                                            \
  /* r/base/private-text.c */                                                                    \
  PLAIN(ffi_private_lines, 3, (SEXP before, SEXP text, SEXP after))                              \
  PLAIN(ffi_private_wipe, 1, (SEXP text))                                                        \
  PLAIN(ffi_private_write, 2, (SEXP text, SEXP path))                                            \
  PLAIN(ffi_private_read, 2, (SEXP path, SEXP names))                                            \
  /* r/base/condition.c */                                                                       \
  PLAIN(ffi_show_warning, 2, (SEXP text, SEXP call))                                             \
  PLAIN(ffi_relay_simple, 6, (SEXP log, SEXP done, SEXP state, SEXP show, SEXP restart, SEXP frame)) \
  CLU_ENTRY_POINTS_OF_ACTORS(IN_TURN, PLAIN)
/* clang-format on */

#define CLU_DECLARE(name, n, arguments) SEXP name arguments;
CLU_ENTRY_POINTS(CLU_DECLARE, CLU_DECLARE)

#endif
