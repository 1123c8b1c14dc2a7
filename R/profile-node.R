# The part of a profile that runs in what is sampled: in nodes of all kinds, and in the session.
#
# All is done by R's own Rprof(). These functions travel to the nodes, also to base R's workers,
# which need not have this package: so they use nothing but base R. What they know of a profile lies
# in its folder, within the temporary folder of the process:
#   begun     what proc.time() was then, or, as text, why there are no samples
#   samples   the file of Rprof()
#   ended     whether samples were still taken when they were asked for
#
# `p`: list(folder, interval, memory, is_sampled), the same for all. Samples within a function
# ..clutch_profile..() are left out.

# Samples are taken from now on.
profile_begin_here <- function(p) {
  ..clutch_profile.. <- function() {
    folder <- file.path(tempdir(), p$folder)
    if (dir.exists(folder)) return(NULL) # a node that was prepared twice
    dir.create(folder, mode = "0700")
    begun <- tryCatch({
      if (isTRUE(p$is_sampled())) stop("Rprof() runs there already")
      args <- list(file.path(folder, "samples"), interval = p$interval, gc.profiling = TRUE,
                   memory.profiling = p$memory, line.profiling = TRUE, numfiles = 1000L,
                   bufsize = 100000L)
      # CPU time is what the shares are of, whatever the system's default is
      if ("event" %in% names(formals(utils::Rprof))) args$event <- "cpu"
      suppressWarnings(do.call(utils::Rprof, args)) # the interval is too short for this system
      unclass(proc.time())[1:5]
    }, error = function(e) conditionMessage(e))
    saveRDS(begun, file.path(folder, "begun"))
    NULL
  }
  ..clutch_profile..()
}

# Samples are not taken any more. The value has what there is, or list(problem): why there is
# nothing. It can be asked again.
profile_fetch_here <- function(p) {
  now <- unclass(proc.time())[1:5]
  file <- function(name) file.path(tempdir(), p$folder, name)
  ..clutch_profile.. <- function() {
    if (!file.exists(file("begun"))) stop("it was busy when the profile began")
    begun <- readRDS(file("begun"))
    if (is.character(begun)) stop(begun)
    if (!file.exists(file("ended"))) {
      ended <- list(on = p$is_sampled(), warning = NULL)
      tryCatch(utils::Rprof(NULL), warning = function(w) ended$warning <<- conditionMessage(w))
      saveRDS(ended, file("ended"))
    }
    begun
  }
  tryCatch({
    begun <- ..clutch_profile..()
    lines <- readLines(file("samples"), warn = FALSE)
    interval <- as.numeric(sub("^.*sample.interval=", "", lines[[1L]])) / 1e6
    lines <- lines[-1L]
    is_file <- startsWith(lines, "#File ")
    samples <- lines[!is_file]
    memory <- NULL
    if (p$memory) {
      # of R's heap: small and large vectors, nodes; then copies
      numbers <- strsplit(sub("^:([0-9:]*):.*$", "\\1", samples), ":", fixed = TRUE)
      memory <- vapply(numbers, function(n) as.numeric(n)[1:3], numeric(3))
      samples <- sub("^:[0-9:]*:", "", samples)
    }
    stacks <- unique(samples)
    ended <- readRDS(file("ended"))
    list(stacks = stacks, order = match(samples, stacks), files = lines[is_file], memory = memory,
         cpu = sum((now - begun)[c(1L, 2L)]), children = sum((now - begun)[c(4L, 5L)]),
         interval = interval, on = ended$on, warning = ended$warning)
  }, error = function(e) list(problem = conditionMessage(e)))
}

# Nothing is left of it.
profile_drop_here <- function(p) {
  folder <- file.path(tempdir(), p$folder)
  if (!dir.exists(folder)) return(NULL)
  begun <- tryCatch(readRDS(file.path(folder, "begun")), error = function(e) 0)
  ended <- file.exists(file.path(folder, "ended"))
  if (is.numeric(begun) && !ended) suppressWarnings(utils::Rprof(NULL))
  unlink(folder, recursive = TRUE)
  NULL
}

# Tells whether samples are taken of this process; NA where this package is not there to find out.
profile_is_on <- function() {
  if (!"clutch" %in% loadedNamespaces()) return(NA)
  get("is_sampled", asNamespace("clutch"))()
}

environment(profile_begin_here) <- baseenv()
environment(profile_fetch_here) <- baseenv()
environment(profile_drop_here) <- baseenv()
environment(profile_is_on) <- baseenv()

is_sampled <- function() .Call(ffi_is_sampled, "event" %in% names(formals(utils::Rprof)))
