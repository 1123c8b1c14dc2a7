# A snapshot (observer-serve.R) as lines of text, for cluster_top().

# At most `height` lines of `width` columns. `before`: an earlier snapshot, for what happens in a
# second. `at`: the row of a node that is marked; NULL: none is.
top_lines <- function(snapshot, width = 80L, height = Inf, colour = FALSE, before = NULL,
                      at = NULL) {
  s <- snapshot
  paint <- if (colour) paint_ansi else function(text, ...) text
  head <- c(paint(fit(top_session(s), width), "bold"), fit(top_sums(s, before), width))
  jobs <- top_jobs(s, width, paint)
  hosts <- top_hosts(s, width, paint)
  events <- top_events(s, width, paint)
  actors <- top_actors(s, width, paint)
  room <- height - length(head) - length(jobs) - length(hosts) - length(events) - length(actors)
  if (room < 5) { # of a low terminal the nodes have the most
    hosts <- events <- actors <- character()
    jobs <- utils::head(jobs, max(0, height - length(head) - 5))
    room <- height - length(head) - length(jobs)
  }
  nodes <- top_nodes(s, room, paint, width, at)
  utils::head(c(head, jobs, hosts, nodes, actors, events), height)
}

top_session <- function(s) {
  x <- s$session
  if (is.null(x)) return("clutch")
  does <- switch(x$state, running = "computes", sleeping = "waits", stopped = "is stopped",
                 ended = "has ended", "is there")
  sprintf("%s  session %.0f of %s on %s %s, R %s", clock_text(s$time), x$pid, plain(x$user),
          plain(x$host), does, x$r)
}

top_sums <- function(s, before) {
  n <- s$nodes
  states <- table(factor(n$state, c("busy", "held", "idle", "starting", "cut", "dead", "stopped")))
  states <- states[states > 0L]
  waiting <- sum(s$jobs$queued[is.na(s$jobs$ended)])
  c(
    sprintf("%s: %s", plural_text(NROW(n), "node", "nodes"),
            paste(states, names(states), collapse = ", ")),
    sprintf("%s waiting%s; %s failed, %s, %s", plural_text(waiting, "task", "tasks"),
            rate_of(s, before), count_text(sum(n$failed)),
            plural_text(sum(n$deaths), "death", "deaths"),
            plural_text(sum(s$jobs$retries), "retry", "retries")),
    sprintf("%s of memory, %s cores in use; %s sent, %s received",
            bytes_text(sum(n$memory, na.rm = TRUE)), format(round(sum(n$cpu, na.rm = TRUE), 1)),
            bytes_text(sum(n$sent)), bytes_text(sum(n$received)))
  )
}

rate_of <- function(s, before) {
  if (is.null(before) || s$time <= before$time) return("")
  done <- max(0, sum(s$nodes$done) - sum(before$nodes$done))
  sprintf(", %s done a second", count_text(done / (s$time - before$time)))
}

# The maps that go on, or else the last one; five at the most.
top_jobs <- function(s, width, paint) {
  j <- s$jobs
  if (is.null(j) || !nrow(j)) return(character())
  shown <- if (anyNA(j$ended)) which(is.na(j$ended)) else nrow(j)
  j <- j[utils::tail(shown, 5L), , drop = FALSE]
  ended <- j$done + j$failed
  took <- pmax(ifelse(is.na(j$ended), s$time, j$ended) - j$since, 1e-3)
  left <- ifelse(ended > 0, (j$total - ended) * took / ended, NA)
  says <- ifelse(is.na(j$ended), ifelse(is.na(left), "", paste(lasting_text(left), "left")),
                 paste("took", lasting_text(took)))
  cells <- floor(20 * ended / pmax(j$total, 1))
  bar <- paste0("[", strrep("#", cells), strrep("-", 20 - cells), "]")
  numbers <- sprintf("%s of %s", count_text(ended), count_text(j$total))
  failed <- ifelse(j$failed > 0, paste0(", ", count_text(j$failed), " failed"), "")
  label <- ifelse(nzchar(j$label), plain(j$label), paste("job", j$job))
  lines <- sprintf("%s %s%s  %s  %s", bar, numbers, failed, says, label)
  c("", paint(fit(lines, width), ifelse(j$failed > 0, "warn", "none")))
}

# Where there are other hosts: four lines at the most, those that are cut off first.
top_hosts <- function(s, width, paint) {
  h <- s$hosts
  if (is.null(h) || all(h$host == "localhost")) return(character())
  h <- h[order(h$state == "up"), , drop = FALSE]
  shown <- utils::head(h, if (nrow(h) > 4L) 3L else 4L)
  load <- ifelse(is.na(shown$load), "-", sprintf("%.1f", shown$load))
  cells <- cbind(
    "host", plain(shown$host), shown$state, plural_each(shown$nodes, "node", "nodes"),
    paste("load", load),
    paste(bytes_text(shown$memory_free), "of", bytes_text(shown$memory), "free"),
    paste(lasting_text(shown$round_trip), "there and back"), paste(bytes_text(shown$sent), "sent"),
    paste(bytes_text(shown$received), "received")
  )
  lines <- do.call(paste, c(lapply(seq_len(ncol(cells)), function(k) format(cells[, k])),
                            sep = "  "))
  lines <- paint(fit(sub(" +$", "", lines), width), ifelse(shown$state == "up", "none", "cut"))
  more <- nrow(h) - nrow(shown)
  c("", lines, if (more > 0L) fit(sprintf("... and %d more hosts", more), width))
}

in_trouble <- function(n) !n$state %in% c("busy", "idle")

# Nodes in trouble come first, then those that are busy, then the others; among these comes first
# which has been at that for longest.
node_order <- function(n) {
  order(!in_trouble(n), n$state != "busy", n$since, n$cluster, n$node)
}

# A node does not say when its last task has ended: since when one is idle is not known.
time_in_state <- function(s, n) ifelse(n$state == "idle", NA, s$time - n$since)

node_keys <- function(n) paste0(n$cluster, ".", n$node)

shown_names <- function(n) if (length(unique(n$cluster)) > 1L) node_keys(n) else n$node

top_nodes <- function(s, room, paint, width, at) {
  n <- s$nodes
  if (is.null(n) || !nrow(n) || room < 3) return(character())
  order <- node_order(n)
  shown <- if (length(order) > room - 2) first_nodes(order, in_trouble(n), room - 3, at) else order
  rest <- n[setdiff(order, shown), , drop = FALSE]
  n <- n[shown, , drop = FALSE]
  table <- list(
    node = shown_names(s$nodes)[shown],
    state = n$state, "for" = lasting_text(time_in_state(s, n)),
    cpu = ifelse(is.na(n$cpu), "-", sprintf("%.0f%%", 100 * n$cpu)),
    memory = bytes_text(n$memory),
    limit = if (!all(is.na(n$limit))) bytes_text(n$limit), done = count_text(n$done),
    failed = count_text(n$failed), host = substr(plain(n$host), 1L, 20L),
    given = if (any(nzchar(n$given))) plain(n$given), does = doing_text(s, n)
  )
  table <- table[lengths(table) > 0L]
  to_left <- names(table) %in% c("state", "host", "given", "does")
  cells <- Map(function(name, x, left) {
    format(c(name, as.character(x)), justify = if (left) "left" else "right",
           width = nchar(name))
  }, names(table), table, to_left)
  lines <- sub(" +$", "", do.call(paste, c(unname(cells), sep = "  ")))
  if (!is.null(at)) lines <- paste0(c("  ", ifelse(shown %in% at, "> ", "  ")), lines)
  lines <- fit(lines, width)
  lines[-1L] <- paint(lines[-1L], n$state)
  more <- if (nrow(rest)) {
    states <- table(rest$state)
    fit(sprintf("... and %d more: %s", nrow(rest), paste(states, names(states), collapse = ", ")),
        width)
  }
  c("", paint(lines[[1L]], "head"), lines[-1L], more)
}

# Where there is no room for all: a third of it at the most for those that are in trouble, as long
# as there are others. Node `at` is among them, NULL: that is no matter.
first_nodes <- function(order, trouble, room, at) {
  bad <- order[trouble[order]]
  good <- order[!trouble[order]]
  bad <- utils::head(bad, max(ceiling(room / 3), room - length(good)))
  shown <- c(bad, utils::head(good, max(0, room - length(bad))))
  if (length(shown) && !all(at %in% shown)) shown[[length(shown)]] <- at
  shown
}

# The text says what each node does.
doing_text <- function(s, n) {
  at <- match(paste(n$cluster, n$job), paste(s$jobs$cluster, s$jobs$job))
  label <- s$jobs$label[at]
  label <- ifelse(is.na(label) | !nzchar(label), paste("job", n$job), plain(label))
  text <- ifelse(is.na(n$job), ifelse(n$state == "busy", "a call", ""), label)
  element <- ifelse(is.na(n$element) | is.na(n$job), "", sprintf(" #%.0f", n$element))
  call <- ifelse(is.na(n$call) | !nzchar(n$call), "", paste0(": ", plain(n$call)))
  paste0(text, element, call)
}

top_events <- function(s, width, paint) {
  e <- s$events
  if (is.null(e) || !nrow(e)) return(character())
  e <- utils::tail(e, 5L)
  node <- ifelse(is.na(e$node), "", paste0(" of node ", e$node))
  lines <- sprintf("%s %s%s: %s", clock_text(e$time), e$kind, node, plain(e$text))
  is_bad <- e$kind %in% c("death", "limit", "cut")
  c("", paint(fit(lines, width), ifelse(is_bad, "dead", "none")))
}

# Four lines at the most, those that are not up first, then those for which most calls wait.
top_actors <- function(s, width, paint) {
  a <- s$actors
  if (is.null(a) || !nrow(a)) return(character())
  a <- a[order(a$state == "up", -a$queue), , drop = FALSE]
  shown <- utils::head(a, if (nrow(a) > 4L) 3L else 4L)
  does <- ifelse(nzchar(shown$waits_for), paste("waits for", plain(shown$waits_for)),
                 ifelse(nzchar(shown$method), paste("at", plain(shown$method)), "idle"))
  does[shown$state != "up"] <- shown$state[shown$state != "up"]
  cells <- cbind("actor", plain(shown$label), does, paste(count_text(shown$queue), "waiting"),
                 paste(count_text(shown$done), "done"), paste(lasting_text(shown$busy), "at work"),
                 ifelse(shown$restarts > 0, plural_each(shown$restarts, "restart", "restarts"), ""))
  lines <- do.call(paste, c(lapply(seq_len(ncol(cells)), function(k) format(cells[, k])),
                            sep = "  "))
  lines <- paint(fit(sub(" +$", "", lines), width),
                 ifelse(shown$state %in% c("down", "ended"), "dead", "none"))
  more <- nrow(a) - nrow(shown)
  c("", lines, if (more > 0L) fit(sprintf("... and %d more actors", more), width))
}

# ---- texts ----

# Text that users wrote has no effect on the terminal.
plain <- function(x) {
  x <- iconv(enc2utf8(as.character(x)), "UTF-8", "UTF-8", sub = "?")
  gsub("[[:cntrl:]]", "?", x)
}

# The text is not wider than the terminal.
fit <- function(x, width) {
  long <- nchar(x, "width") > width
  x[long] <- paste0(strtrim(x[long], max(0, width - 3)), strtrim("...", width))
  x
}

ansi_codes <- c(bold = "1", head = "7", busy = "", idle = "2", held = "36", starting = "33",
                cut = "35", dead = "1;31", warn = "33", none = "")

paint_ansi <- function(text, kind) {
  code <- ansi_codes[match(kind, names(ansi_codes), nomatch = length(ansi_codes))]
  ifelse(nzchar(code), paste0("\033[", code, "m", text, "\033[0m"), text)
}

clock_text <- function(time) format(as.POSIXct(time, origin = "1970-01-01"), "%H:%M:%S")

count_text <- function(x) {
  text <- formatC(round(x), format = "f", digits = 0, big.mark = ",", decimal.mark = ".")
  ifelse(is.na(x), "-", trimws(text))
}

plural_each <- function(n, one, more) paste(count_text(n), ifelse(n == 1, one, more))

plural_text <- function(n, one, more) paste(count_text(n), if (n == 1) one else more)

# Units of 1024, as cluster_status() counts.
bytes_text <- function(x) {
  units <- c("B", "kB", "MB", "GB", "TB")
  known <- ifelse(is.na(x), 0, x)
  k <- pmin(floor(log(pmax(known, 1), 1024)), 4)
  value <- known / 1024^k
  text <- ifelse(value < 10 & k > 0, sprintf("%.1f", value), sprintf("%.0f", value))
  ifelse(is.na(x), "-", paste(text, units[k + 1]))
}

lasting_text <- function(x) {
  x <- pmax(x, 0)
  text <- ifelse(x < 1, sprintf("%.0f ms", 1000 * x), sprintf("%.0f s", floor(x)))
  text <- ifelse(x >= 60, sprintf("%.0f min %.0f s", x %/% 60, floor(x %% 60)), text)
  text <- ifelse(x >= 3600, sprintf("%.0f h %.0f min", x %/% 3600, x %% 3600 %/% 60), text)
  ifelse(is.na(x), "-", text)
}
