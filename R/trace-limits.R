# This file finds what limits a cluster, by its trace: where the time of the nodes went.
#
# A stretch is a time in which some job was under way. In it a node's time is `run`; `wire`, a task
# was sent to it and has not begun; `wait`, a task is there and was not sent; `starved`, no task was
# there; `tail`, it had its last one; `answer`, all tasks have ended, and the session has not all
# answers. Time between stretches is nobody's loss.

#' @rdname cluster_trace
#' @export
summary.clutch_trace <- function(object, ...) {
  x <- object
  n <- nodes_of_trace(x)
  span <- if (nrow(x)) max(x$ended) - min(x$began) else 0
  seconds <- vapply(seq_len(n), function(k) sum((x$ended - x$began)[x$node == k]), 1)
  busy <- seconds / max(span, 1e-9)
  idle <- if (n) 1 - mean(pmin(busy, 1)) else NA_real_
  about <- list(tasks = nrow(x), failed = sum(!x$ok), span = span, busy = busy, idle = idle,
                trips = nrow(x), bytes = sum(x$bytes), memory = memory_of_nodes(attr(x, "memory")),
                limits = limits_of_trace(x, n))
  structure(about, class = "clutch_trace_summary")
}

nodes_of_trace <- function(x) {
  n <- attr(x, "nodes")
  if (is.null(n)) max(c(0, x$node)) else n
}

#' @export
print.clutch_trace_summary <- function(x, ...) {
  n <- length(x$busy)
  cat(sprintf("%d %s, %d failed, in %.3f s on %d %s\n", x$tasks,
              if (x$tasks == 1) "task" else "tasks", x$failed, x$span, n,
              if (n == 1L) "node" else "nodes"))
  cat(sprintf("idle: %.1f %% of the nodes' time; %.0f answers with %s\n", 100 * x$idle, x$trips,
              mb(x$bytes)))
  cat("what limits:", if (!nrow(x$limits)) " nothing", "\n", sep = "")
  for (k in seq_len(nrow(x$limits))) {
    text <- paste0(x$limits$measured[[k]], ". ", x$limits$advice[[k]])
    cat(strwrap(text, width = 80, initial = "* ", prefix = "  "), sep = "\n")
  }
  invisible(x)
}

# ---- limits ----

# Below these nothing is said: what takes no longer is no trouble.
LEAST_SPAN <- 0.02 # seconds of all stretches
LEAST_SHARE <- 0.2 # of the nodes' time

# A data frame: `what`, `share` (of the nodes' time that is lost by it; NA: not known), `measured`,
# `advice`. What loses most is first.
limits_of_trace <- function(x, n) {
  room <- limit_of_room(attr(x, "shortage"), x, n)
  found <- list(limit_of_memory(attr(x, "deaths"), attr(x, "memory"), attr(x, "machine_memory")),
                room)
  x <- x[x$node > 0 & !is.na(x$run), , drop = FALSE]
  if (nrow(x) && n > 0) {
    spent <- time_spent(x, n)
    if (sum(spent$length) >= LEAST_SPAN) {
      all <- n * sum(spent$length)
      found <- c(found, list(
        limit_of_size(x, spent, all), limit_of_payload(x, spent, all), limit_of_node(x, all),
        limit_of_number(x, spent, all, n, sum(room$share)), limit_of_waits(attr(x, "waits"), all)
      ))
    }
  }
  found <- do.call(rbind, c(list(one_limit(character(), numeric(), character(), character())),
                            found))
  found[order(found$share, decreasing = TRUE, na.last = FALSE), , drop = FALSE]
}

one_limit <- function(what, share, measured, advice) {
  data.frame(what = what, share = share, measured = measured, advice = advice,
             stringsAsFactors = FALSE)
}

# Node-seconds by what they were spent on, a row for each stretch. `x`: tasks that were begun.
time_spent <- function(x, n) {
  s <- stretches(x)
  x <- x[order(x$node, x$began), , drop = FALSE]
  k <- findInterval(x$began, s$from)
  k[k == 0L] <- 1L
  key <- k * (n + 1) + x$node
  is_first <- !duplicated(key)
  is_last <- !duplicated(key, fromLast = TRUE)
  before <- c(-Inf, x$ended[-nrow(x)])
  before <- ifelse(is_first, s$from[k], pmin(before, x$began))
  queued <- pmin(pmax(x$queued, before), x$began)
  sent <- pmin(pmax(x$sent, queued, na.rm = TRUE), x$began)
  total <- function(seconds) sums_by(seconds, k, nrow(s))
  last <- tapply(x$ended, factor(k, seq_len(nrow(s))), max)
  last <- pmin(as.vector(last), s$to)
  tail <- total(ifelse(is_last, pmax(last[k] - x$ended, 0), 0)) +
    (n - total(is_last)) * (last - s$from)
  # what nodes are at is in no trace
  is_open <- s$to >= min(attr(x, "open_since"), Inf)
  data.frame(length = s$to - s$from, from = s$from, to = s$to, run = total(x$run),
             starved = total(queued - before), wait = total(sent - queued),
             wire = total(x$began - sent), tail = ifelse(is_open, 0, tail),
             answer = ifelse(is_open, 0, n * (s$to - last)))
}

# Sums of `seconds` by stretch.
sums_by <- function(seconds, k, n) {
  sums <- rowsum(as.double(seconds), k)
  out <- numeric(n)
  out[as.integer(rownames(sums))] <- sums
  out
}

# Times in which some job was under way: jobs that overlap are one.
stretches <- function(x) {
  job <- factor(x$job)
  from <- as.vector(tapply(x$queued, job, min))
  to <- as.vector(tapply(x$received, job, max))
  # of a job whose first tasks are forgotten only the time that is known counts
  known <- as.vector(tapply(pmin(x$sent, x$began, na.rm = TRUE), job, min))
  is_whole <- as.vector(tapply(x$element, job, min)) == 1
  from <- ifelse(is_whole, from, known)
  o <- order(from)
  from <- from[o]
  to <- cummax(to[o])
  is_new <- c(TRUE, from[-1L] > to[-length(to)])
  data.frame(from = from[is_new], to = to[c(is_new[-1L], TRUE)])
}

percent <- function(share) sprintf("%.0f %%", 100 * share)

duration_text <- function(s) {
  if (s < 1e-3) return(sprintf("%.1f us", 1e6 * s))
  if (s < 1) return(sprintf("%.1f ms", 1e3 * s))
  sprintf("%.1f s", s)
}

size_text <- function(bytes) {
  if (bytes >= 1e6) sprintf("%.1f MB", bytes / 1e6) else sprintf("%.0f kB", bytes / 1e3)
}

# Bytes of a task, there and back.
mean_bytes <- function(x) {
  jobs <- attr(x, "jobs")
  out <- if (is.null(jobs)) 0 else {
    jobs <- jobs[jobs$job %in% x$job, , drop = FALSE]
    sum(jobs$bytes_out) / max(sum(jobs$elements), 1)
  }
  out + mean(x$bytes)
}

LARGE <- 1e5 # bytes of a task

# Nodes and session are at the handing out of tasks, not at the tasks. `run` of very quick tasks is
# mostly what the node has to do for each, too.
limit_of_size <- function(x, spent, all) {
  took <- stats::median(x$run)
  lost <- sum(spent$wire, spent$wait, spent$answer)
  share <- lost / max(lost + sum(spent$run), 1e-9)
  is_tiny <- took < 1e-5 && nrow(x) >= 1000
  if (!(is_tiny || (took < 1e-3 && share > 0.4)) || mean_bytes(x) >= LARGE) return(NULL)
  measured <- sprintf(paste("the tasks are small: half of them take less than %s, and to hand one",
                            "out takes %s of a node's time"),
                      duration_text(took), duration_text(lost / nrow(x)))
  one_limit("small_tasks", lost / all, measured,
            "Let each task do more: give it a vector of elements in place of one")
}

# Bytes that travel take the nodes' time. The time to serialize an answer counts as `run` of the
# next task in the same batch, so the bytes in relation to `run` tell, too.
limit_of_payload <- function(x, spent, all) {
  bytes <- mean_bytes(x)
  if (bytes < LARGE) return(NULL)
  run <- sum(x$run)
  lost <- sum(spent$wire, spent$wait, spent$answer)
  share <- lost / max(lost + run, 1e-9)
  is_dense <- bytes * nrow(x) / max(run, 1e-9) > 2.5e8
  if (share < LEAST_SHARE + 0.05 && !is_dense) return(NULL)
  text <- paste("much travels: %s a task there and back, and in %s of the time that nodes could",
                "have worked they waited for it")
  one_limit("large_payloads", lost / all, sprintf(text, size_text(bytes), percent(share)), paste(
    "Send what many tasks need once, by cluster_export() or share(), and return only what is used"))
}

# One node needs longer for the same. Each task is compared with the median of those around it in
# the same map, or of the same label.
limit_of_node <- function(x, all) {
  if (stats::median(x$run) < 1e-3) return(NULL)
  of <- attr(x, "jobs")$elements[match(x$job, attr(x, "jobs")$job)]
  if (!length(of)) of <- rep(2, nrow(x))
  group <- ifelse(of > 1, paste("job", x$job), x$label)
  o <- order(group, x$job, x$element)
  x <- x[o, , drop = FALSE]
  ratio <- stats::ave(x$run, group[o], FUN = relative_run)
  by_node <- split(ratio, x$node)
  by_node <- by_node[lengths(by_node) >= 5L]
  if (length(by_node) < 2L) return(NULL)
  typical <- vapply(by_node, stats::median, 1)
  often <- vapply(by_node, function(r) mean(r > 1.25), 1)
  slow <- which.max(typical)
  if (typical[[slow]] < 1.5 || often[[slow]] < 0.75 || max(typical[-slow]) > 1.25) return(NULL)
  node <- as.numeric(names(by_node)[[slow]])
  host <- x$host[match(node, x$node)]
  where <- if (is.null(host) || is.na(host)) "" else sprintf(" (on %s)", host)
  text <- "node %.0f%s is slow: it takes %.1f times as long for its tasks as the others"
  measured <- sprintf(text, node, where, typical[[slow]])
  lost <- sum(x$run[x$node == node]) * (1 - 1 / typical[[slow]])
  one_limit("slow_node", lost / all, measured,
            "See what else runs on its machine, or make the cluster without it")
}

# A running median that one slow node does not move.
relative_run <- function(run) {
  if (length(run) < 10L) return(rep(1, length(run)))
  around <- stats::runmed(run, min(2L * (length(run) %/% 2L) - 1L, 31L))
  run / pmax(as.vector(around), 1e-9)
}

# Nodes have nothing to do while others work. `held`: the share of the time in which they had not
# because memory was short.
limit_of_number <- function(x, spent, all, n, held) {
  share <- sum(spent$tail, spent$starved) / all - held
  if (share < LEAST_SHARE) return(NULL)
  worst <- spent[which.max(spent$tail + spent$starved), ]
  here <- x[x$began >= worst$from & x$began <= worst$to, , drop = FALSE]
  measured <- number_text(here, n, share)
  one_limit("few_elements", share, measured, number_advice(here, n))
}

number_text <- function(x, n, share) {
  lost <- sprintf("nodes had nothing to do in %s of their time", percent(share))
  if (is_single(x)) return(paste("there are too few tasks at a time:", lost))
  k <- which.max(x$run)
  label <- x$label[[k]]
  name <- sprintf(if (nzchar(label)) "job %.0f, %s," else "job %.0f", x$job[[k]], label)
  if (nrow(x) < n) return(sprintf("%s has %d tasks for %d nodes: %s", name, nrow(x), n, lost))
  sprintf("%s while the last tasks of %s were at work: the longest (element %.0f) took %s", lost,
          name, x$element[[k]], duration_text(x$run[[k]]))
}

# Tells whether these are tasks that were submitted one by one.
is_single <- function(x) {
  elements <- attr(x, "jobs")$elements[match(x$job, attr(x, "jobs")$job)]
  length(elements) > 0L && all(elements == 1)
}

number_advice <- function(x, n) {
  if (is_single(x)) return("Submit tasks before the ones before are collected, or use a map")
  if (nrow(x) < n) return("Divide the work into more tasks, or use fewer nodes")
  "Divide the work into more and smaller tasks, and put the longest first"
}

# Parts of runs wait for each other.
limit_of_waits <- function(waits, all) {
  if (is.null(waits)) return(NULL)
  kinds <- c(receive = "messages", send = "room to send messages",
             together = "what all do together")
  seconds <- colSums(waits[names(kinds)])
  share <- sum(seconds) / all
  if (share < LEAST_SHARE) return(NULL)
  most <- names(which.max(seconds))
  text <- sprintf("parts of runs waited for each other in %s of the nodes' time, most of it for %s",
                  percent(share), kinds[[most]])
  by_rank <- sums_by(rowSums(waits[names(kinds)]), waits$rank, max(waits$rank))
  if (max(by_rank) > 2 * min(by_rank) + 0.01) {
    text <- sprintf("%s; rank %d waited least, %s, and rank %d longest, %s", text,
                    which.min(by_rank), duration_text(min(by_rank)), which.max(by_rank),
                    duration_text(max(by_rank)))
  }
  one_limit("messages", share, text, paste(
    "Give each rank as much to do as the others, let it do more between two messages, or send",
    "less often"
  ))
}

MUCH <- 0.8 # of the machine's memory

# `deaths`, `memory`: as of cluster_trace(); NULL: not known. `machine`: MB that this machine has.
limit_of_memory <- function(deaths, memory, machine) {
  deaths <- deaths[deaths$kind == "memory", , drop = FALSE]
  died <- !is.null(deaths) && nrow(deaths) > 0L
  together <- if (is.null(memory)) 0 else most_together(memory)
  is_much <- !is.null(machine) && !is.na(machine) && together > MUCH * machine
  if (!died && !is_much) return(NULL)
  measured <- c(if (died) deaths_text(deaths), if (together > 0) had_memory_text(memory, machine))
  one_limit("memory", NA_real_, paste0("memory: ", paste(measured, collapse = "; ")),
            memory_advice(memory, machine))
}

# Nodes were stopped or had to wait since tasks did not fit side by side. `use`: as of
# room_of_tasks(); NULL: not known.
limit_of_room <- function(use, x, n) {
  if (is.null(use) || use$short < LEAST_SHORTAGE || !nrow(x)) return(NULL)
  span <- max(x$received) - min(x$queued)
  share <- min(use$short * max(n - use$went, 0) / max(n * span, 1e-9), 1)
  text <- paste("memory: tasks take up to %s and there are %s for all, so that for %s only %.1f of",
                "%d nodes could be at work")
  measured <- sprintf(text, mb(use$peak), mb(use$limit), duration_text(use$short), use$went, n)
  one_limit("memory", share, measured,
            "Let each task hold less at a time, or use a machine with more memory")
}

deaths_text <- function(deaths) {
  last <- deaths[nrow(deaths), ]
  sprintf("%d %s for want of it, the last one on node %d (%s)", nrow(deaths),
          if (nrow(deaths) == 1L) "node has ended" else "nodes have ended", last$node, last$how)
}

had_memory_text <- function(memory, machine) {
  most <- memory[which.max(memory$memory), ]
  text <- sprintf("node %.0f had up to %.0f MB of its own, and all together up to %.0f MB",
                  most$node, most$memory, most_together(memory))
  if (is.null(machine) || is.na(machine)) return(text)
  paste0(text, sprintf(" of the %.0f MB of this machine", machine))
}

# Some of the memory is for the system, and for the session.
memory_advice <- function(memory, machine) {
  fit <- if (is.null(memory) || !nrow(memory) || is.null(machine)) NA else {
    floor(MUCH * machine / max(memory$memory))
  }
  if (is.na(fit) || fit >= length(unique(memory$node)))
    return("Use fewer nodes, let each task hold less at a time, or raise `.max_memory`")
  sprintf("Use %.0f %s, for more of this size do not fit, or let each task hold less at a time",
          max(fit, 1), if (fit > 1) "nodes" else "node")
}
