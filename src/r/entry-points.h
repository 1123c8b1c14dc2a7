/* The entry points of .Call, by file: they check, convert and call the core; see r-api.h.
 * src/init.c registers them. */
#ifndef CLUTCH_ENTRY_POINTS_H
#define CLUTCH_ENTRY_POINTS_H

#ifndef R_NO_REMAP
#define R_NO_REMAP
#endif
#include <Rinternals.h>

/* r/session/session.c */
SEXP ffi_live_handles(void);
SEXP ffi_end_thread(void);

/* r/session/call.c */
SEXP ffi_call_cancel(SEXP frame);
SEXP ffi_call_scope_begin(SEXP frame, SEXP same, SEXP frames);
SEXP ffi_node_send(SEXP handle, SEXP data, SEXP frame, SEXP outer);
SEXP ffi_node_tell(SEXP handle, SEXP fun, SEXP args);
SEXP ffi_node_recv(SEXP handle);
SEXP ffi_node_ready(SEXP handle);
SEXP ffi_any_recv(SEXP nodes);

/* r/session/acceptor.c */
SEXP ffi_acceptor_open(SEXP host, SEXP ports, SEXP backlog, SEXP secret);
SEXP ffi_can_listen(SEXP host);
SEXP ffi_acceptor_secret(SEXP acceptor);
SEXP ffi_acceptor_node(SEXP acceptor, SEXP rank, SEXP settings);
SEXP ffi_acceptor_spawn(SEXP acceptor, SEXP handle, SEXP argv, SEXP envp, SEXP how);
SEXP ffi_acceptor_wait(SEXP acceptor, SEXP n, SEXP seconds);
SEXP ffi_acceptor_report(SEXP acceptor);
SEXP ffi_acceptor_close(SEXP acceptor);

/* r/session/view.c */
SEXP ffi_view_new(SEXP number, SEXP nodes, SEXP texts);
SEXP ffi_view_nodes(SEXP view, SEXP handles, SEXP ranks, SEXP hosts);
SEXP ffi_view_pass(SEXP view, SEXP server, SEXP number);
SEXP ffi_view_tell(SEXP view, SEXP kind, SEXP node, SEXP text);
SEXP ffi_view_stop(SEXP view);

/* r/session/psock.c */
SEXP ffi_psock_node(SEXP rank);
SEXP ffi_psock_spawn(SEXP handle, SEXP argv, SEXP envp, SEXP how);
SEXP ffi_psock_listen(SEXP host, SEXP ports, SEXP backlog);
SEXP ffi_psock_accept(SEXP listener);
SEXP ffi_psock_ready(SEXP list, SEXP seconds);
SEXP ffi_psock_queue(SEXP x, SEXP object, SEXP epoch);
SEXP ffi_psock_flush(SEXP x, SEXP seconds);
SEXP ffi_psock_recv(SEXP x, SEXP seconds, SEXP bytes, SEXP node);
SEXP ffi_psock_awaited(SEXP x);
SEXP ffi_psock_close(SEXP x);
SEXP ffi_psock_is_ready(SEXP handle, SEXP pid);

/* r/session/fork-server.c */
SEXP ffi_server_start(SEXP file, SEXP argv, SEXP envp, SEXP log);
SEXP ffi_server_send(SEXP server, SEXP kind, SEXP object);
SEXP ffi_server_wait(SEXP server, SEXP seconds);
SEXP ffi_server_settings(SEXP server, SEXP object, SEXP output);
SEXP ffi_server_applied(SEXP server, SEXP seq, SEXP seconds);
SEXP ffi_server_info(SEXP server);
SEXP ffi_servers_machine(SEXP list, SEXP of_nodes, SEXP seconds);
SEXP ffi_node_use(SEXP handle);
SEXP ffi_server_close(SEXP server, SEXP seconds);

/* r/session/node.c */
SEXP ffi_nodes_spawn(SEXP server, SEXP ranks, SEXP kind);
SEXP ffi_nodes_wait(SEXP list, SEXP seconds);
SEXP ffi_nodes_stop(SEXP list, SEXP grace_ms, SEXP seconds);
SEXP ffi_node_info(SEXP handle);
SEXP ffi_node_swap(SEXP handle, SEXP fresh);
SEXP ffi_node_child_pid(SEXP handle);
SEXP ffi_node_lost(SEXP handle);

/* r/session/link.c: other hosts. A link process, forked from a fork server of this session, holds
 * one connection to each host. The fork server of a host is a handle as any other, with which all
 * of r/session/fork-server.c and ffi_nodes_spawn() work. */
SEXP ffi_link_start(SEXP server, SEXP host, SEXP ports, SEXP times, SEXP tls);
SEXP ffi_link_await(SEXP link);
SEXP ffi_link_info(SEXP link);
SEXP ffi_link_secrets(SEXP link);
SEXP ffi_link_host(SEXP link, SEXP rank);
SEXP ffi_link_view(SEXP link, SEXP number, SEXP view);
SEXP ffi_link_command(SEXP link, SEXP rank, SEXP node, SEXP carries);
SEXP ffi_link_hosts(SEXP link);
SEXP ffi_link_close(SEXP link, SEXP seconds);

/* r/tasks/task-drive.c */
SEXP ffi_tasks_step(SEXP x, SEXP job, SEXP seconds, SEXP known);

/* r/tasks/task-hosts.c */
SEXP ffi_tasks_host(SEXP x, SEXP number, SEXP nodes, SEXP server, SEXP command, SEXP idle);
SEXP ffi_tasks_host_there(SEXP x, SEXP number);
SEXP ffi_tasks_host_gone(SEXP x, SEXP number);
SEXP ffi_tasks_hosts_idle(SEXP x);
SEXP ffi_tasks_desired(SEXP x, SEXP seconds);
SEXP ffi_tasks_are_gone(SEXP x, SEXP nodes);

/* r/tasks/task-life.c */
SEXP ffi_tasks_new(SEXP handles, SEXP grace, SEXP most);
SEXP ffi_session_in_child(void);
SEXP ffi_tasks_show(SEXP x, SEXP view);
SEXP ffi_tasks_idle(SEXP x, SEXP seconds);
SEXP ffi_tasks_idle_nodes(SEXP x);
SEXP ffi_tasks_use(SEXP x);
SEXP ffi_tasks_attach(SEXP x, SEXP index);
SEXP ffi_tasks_attach_all(SEXP x, SEXP nodes);
SEXP ffi_job_new(SEXP x, SEXP parts, SEXP elements, SEXP spec, SEXP seed, SEXP only);
SEXP ffi_job_name(SEXP job, SEXP name, SEXP code);
SEXP ffi_job_start(SEXP x, SEXP job);
SEXP ffi_job_end(SEXP job, SEXP wait);
SEXP ffi_job_outcome(SEXP job);
SEXP ffi_job_drop_value(SEXP job);
SEXP ffi_job_fail_pending(SEXP job, SEXP cause);

/* r/tasks/task-budget.c */
SEXP ffi_tasks_budget(SEXP x, SEXP size, SEXP under);
SEXP ffi_tasks_map_begins(SEXP x, SEXP tokens, SEXP own);
SEXP ffi_tasks_map_ends(SEXP x, SEXP own);

/* r/tasks/task-query.c */
SEXP ffi_job_state(SEXP job);
SEXP ffi_job_finished(SEXP job);
SEXP ffi_job_ready(SEXP job);
SEXP ffi_job_values(SEXP job);
SEXP ffi_job_plain_values(SEXP job);
SEXP ffi_job_size(SEXP job);
SEXP ffi_job_failures(SEXP job, SEXP from);
SEXP ffi_job_hear(SEXP job, SEXP handler);
SEXP ffi_job_handler(SEXP job);
SEXP ffi_job_hearing(SEXP job, SEXP now);
SEXP ffi_tasks_unheard(SEXP x);
SEXP ffi_job_relay(SEXP job);
SEXP ffi_tasks_open(SEXP x);
SEXP ffi_tasks_jobs(SEXP x);
SEXP ffi_tasks_deaths(SEXP x);
SEXP ffi_tasks_ask(SEXP x, SEXP seconds);
SEXP ffi_tasks_unclear(SEXP x);
SEXP ffi_tasks_word(SEXP x, SEXP index, SEXP counts);
SEXP ffi_tasks_unlimited(SEXP x);
SEXP ffi_tasks_trace(SEXP x);
SEXP ffi_tasks_memory(SEXP x);
SEXP ffi_job_trace(SEXP x, SEXP job, SEXP most);
SEXP ffi_job_number(SEXP job);
SEXP ffi_job_label(SEXP job);
SEXP ffi_tasks_open_since(SEXP x);
SEXP ffi_stream_jump(SEXP state, SEXP n);

/* r/tasks/task-stacks.c */
SEXP ffi_stacks(SEXP handles, SEXP seconds);

/* r/tasks/task-news.c */
SEXP ffi_job_await(SEXP job);
SEXP ffi_wake_descriptors(void);
SEXP ffi_wake(void);
SEXP ffi_wake_hold(void);
SEXP ffi_wake_seen(void);
SEXP ffi_tasks_news(SEXP x);
SEXP ffi_tasks_notes(SEXP x);
SEXP ffi_tasks_wait(SEXP x);

/* r/node/fork-server-main.c */
SEXP ffi_fork_server_begin(SEXP exec, SEXP idle);
SEXP ffi_fork_server_begins(SEXP in_r);
SEXP ffi_fork_server_expect(SEXP n);
SEXP ffi_fork_server_session(void);
SEXP ffi_fork_server_listen(SEXP path, SEXP owns_folder);
SEXP ffi_fork_server_keeps(SEXP from, SEXP to);
SEXP ffi_fork_server_count_oom(SEXP file);
SEXP ffi_fork_server_temp(void);
SEXP ffi_fork_server_rehearse(void);
SEXP ffi_fork_server_use_up(SEXP most);
SEXP ffi_fork_server_serve(SEXP env);
SEXP ffi_fork_server_answer(SEXP kind, SEXP seq, SEXP object);

/* r/node/host.c */
SEXP ffi_host_begin(SEXP settings, SEXP secrets);
SEXP ffi_host_protocol(void);
SEXP ffi_host_start(SEXP argv, SEXP text);

/* r/node/join.c */
SEXP ffi_join(SEXP host, SEXP port, SEXP rank, SEXP seconds, SEXP local);
SEXP ffi_output_to(SEXP path);

/* r/node/stack.c. An interrupt comes again in some ms: whether it can. */
SEXP ffi_node_postpone(void);

/* r/node/node-loop.c */
SEXP ffi_node_loop(SEXP env);
SEXP ffi_node_failed(SEXP value);
SEXP ffi_node_interrupted(SEXP value);
SEXP ffi_node_at_task(void);
SEXP ffi_node_closed(void);
SEXP ffi_node_is_asked(void);
SEXP ffi_node_end(void);

/* r/node/observer.c */
SEXP ffi_observer_caller(void);
SEXP ffi_observer_views(void);
SEXP ffi_observer_read(SEXP view, SEXP wish);
SEXP ffi_views_of(SEXP pids, SEXP fds);
SEXP ffi_view_numbers(SEXP view);
SEXP ffi_view_folder(SEXP view);
SEXP ffi_observer_machine(void);
SEXP ffi_observer_end(void);
SEXP ffi_observer_ask(SEXP view, SEXP nodes);
SEXP ffi_observer_stacks(SEXP view, SEXP questions);
SEXP ffi_process_letter(SEXP pid);

/* r/node/node-start.c */
SEXP ffi_node_begin_joined(SEXP problem);
SEXP ffi_is_node(void);
SEXP ffi_node_begin_exec(SEXP slot, SEXP tmp, SEXP program, SEXP server);
SEXP ffi_node_program_done(void);
SEXP ffi_node_title(SEXP text);

/* r/node/node-tasks.c */
SEXP ffi_work_sinks(SEXP output);
SEXP ffi_work_environment(SEXP old);
SEXP ffi_work_unreadable(SEXP failure);
SEXP ffi_task_attempt(void);

/* r/node/relay.c */
SEXP ffi_work_slim(SEXP cond);
SEXP ffi_work_log(SEXP cond, SEXP now);
SEXP ffi_work_message(SEXP cond);
SEXP ffi_work_warning(SEXP cond);
SEXP ffi_work_output(void);

/* r/tasks/task-options.c */
SEXP ffi_options_set(SEXP names);
SEXP ffi_stream_of_seed(SEXP seed);

/* r/tasks/task-submit.c */
SEXP ffi_submit(SEXP cl, SEXP fun, SEXP code, SEXP also);
SEXP ffi_task_value(SEXP task);
SEXP ffi_map_begin(SEXP cl, SEXP elements, SEXP fun, SEXP globals, SEXP code);
SEXP ffi_map_values(SEXP job);

/* r/tasks/typed-values.c */
SEXP ffi_values_typed(SEXP values, SEXP types, SEXP empty);

/* r/globals/alone.c */
SEXP ffi_code_is_short(SEXP code);
SEXP ffi_code_alone(SEXP code, SEXP env);
SEXP ffi_objects_alone(SEXP objects);

/* r/globals/free-symbols.c */
SEXP ffi_globals_locals(SEXP x, SEXP code, SEXP env, SEXP top, SEXP frame);

/* r/globals/search-state.c */
SEXP ffi_globals_new(void);
SEXP ffi_globals_pointer(SEXP x);
SEXP ffi_is_pointer(SEXP x);

/* r/globals/search.c */
SEXP ffi_globals_search(SEXP x, SEXP roots, SEXP also);

/* r/socket/connection-read.c */
SEXP ffi_connection_left(SEXP handle, SEXP whole);

/* r/socket/connection-write.c */
SEXP ffi_connection_uncork(SEXP handle, SEXP value);

/* r/socket/connection.c */
SEXP ffi_connection_summary(SEXP x);
SEXP ffi_connection_new(SEXP handle, SEXP description, SEXP class, SEXP mode, SEXP blocking,
                        SEXP encoding, SEXP opener);

/* r/socket/find.c */
SEXP ffi_socket_here(SEXP x);

/* r/socket/info.c */
SEXP ffi_socket_info(SEXP x);
SEXP ffi_socket_table(void);
SEXP ffi_connection_fd(SEXP x);
SEXP ffi_socket_count(void);

/* r/socket/objects.c */
SEXP ffi_socket_send(SEXP x, SEXP object);
SEXP ffi_socket_receive(SEXP x);

/* r/socket/open.c */
SEXP ffi_socket_new(SEXP blocking, SEXP timeout);
SEXP ffi_socket_get_options(SEXP x);
SEXP ffi_socket_listen(SEXP host, SEXP port, SEXP path, SEXP backlog, SEXP keep, SEXP options,
                       SEXP slot);
SEXP ffi_socket_connect(SEXP host, SEXP port, SEXP path, SEXP server, SEXP blocking, SEXP open,
                        SEXP encoding, SEXP timeout, SEXP options, SEXP slot);
SEXP ffi_socket_adopt(SEXP fd, SEXP timeout);
SEXP ffi_socket_accept(SEXP listener, SEXP blocking, SEXP open, SEXP encoding, SEXP timeout,
                       SEXP options, SEXP slot, SEXP wait);
SEXP ffi_service_probe(SEXP x, SEXP host, SEXP ports, SEXP timeout);

/* r/socket/transfer.c */
SEXP ffi_socket_timeout(SEXP x, SEXP seconds);
SEXP ffi_socket_shutdown(SEXP x, SEXP how);
SEXP ffi_socket_end(SEXP x, SEXP seconds);
SEXP ffi_socket_drop(SEXP x);
SEXP ffi_socket_read(SEXP x, SEXP n, SEXP exact);
SEXP ffi_socket_write(SEXP x, SEXP data);
SEXP ffi_socket_select(SEXP list, SEXP write, SEXP timeout);

/* r/socket/socket-set.c */
SEXP ffi_socket_set_new(void);
SEXP ffi_socket_set_add(SEXP x, SEXP list, SEXP want, SEXP names);
SEXP ffi_socket_set_remove(SEXP x, SEXP list);
SEXP ffi_socket_set_wait(SEXP x, SEXP timeout);
SEXP ffi_socket_set_count(SEXP x);
SEXP ffi_socket_set_close(SEXP x);

/* r/json.c */
SEXP ffi_json_numbers(SEXP x);
SEXP ffi_json_strings(SEXP x, SEXP escaped);

/* r/serialize.c */
SEXP ffi_share(SEXP x);

/* r/share-splice.c */
SEXP ffi_share_default(SEXP receivers);

/* r/share-vector.c */
SEXP ffi_is_shared(SEXP x);

/* r/system.c */
SEXP ffi_affinity_count(void);
SEXP ffi_thread_count(void);
SEXP ffi_is_sampled(SEXP by_thread);
SEXP ffi_budget_take(SEXP n, SEXP of, SEXP under);
SEXP ffi_budget_give(SEXP n);
SEXP ffi_budget_held(void);
SEXP ffi_process_memory(SEXP pid);
SEXP ffi_processes_are_there(SEXP pids);
SEXP ffi_process_kill(SEXP pid);
SEXP ffi_limits(void);
SEXP ffi_raise_fds(SEXP n);
SEXP ffi_system_can(void);
SEXP ffi_signal_name(SEXP sig);
SEXP ffi_clock(void);
SEXP ffi_weak_new(SEXP env, SEXP value);
SEXP ffi_weak_get(SEXP ref);
SEXP ffi_weak_value(SEXP ref);
SEXP ffi_remove_folder(SEXP path);
SEXP ffi_mark_folder(SEXP path);
SEXP ffi_remove_unused(SEXP path);
SEXP ffi_random_seeds(SEXP n);
SEXP ffi_secret_bytes(SEXP n);
SEXP ffi_same_secret(SEXP a, SEXP b);
SEXP ffi_output_append(SEXP path, SEXP text);

/* r/private-text.c */
SEXP ffi_private_lines(SEXP before, SEXP text, SEXP after);
SEXP ffi_private_wipe(SEXP text);
SEXP ffi_private_write(SEXP text, SEXP path);
SEXP ffi_private_read(SEXP path, SEXP names);

/* r/condition.c */
SEXP ffi_show_warning(SEXP text, SEXP call);
SEXP ffi_relay_simple(SEXP log, SEXP done, SEXP state, SEXP show, SEXP restart, SEXP frame);

#endif
