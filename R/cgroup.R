# Where the control groups of this process are in the file system.
#
# The formats are those of the manual pages cgroups(7), cgroup_namespaces(7) and proc(5). All files
# are read below `root`, so that tests can hand in the tree of another machine.

# The folders of this process's group in one hierarchy (`controller` "" is v2):
# a list with one vector for each mount that shows it, the group's own folder
# first, then its ancestors up to the mount point. A folder need not exist.
cgroup_folders <- function(root, controller) {
  group <- cgroup_of_process(root, controller)
  mounts <- cgroup_mounts(root, controller)
  if (is.na(group) || !nrow(mounts)) return(list())

  below <- vapply(mounts$root, path_below, "", path = group)
  visible <- !is.na(below)
  if (!any(visible)) {
    # A container that sees its own group as the mount point, under a name from
    # outside, or from another namespace ("/../.."): all we can know is that.
    mounts <- mounts[1L, ]
    below <- ""
    visible <- TRUE
  }
  Map(function(point, below) {
    parts <- strsplit(below, "/", fixed = TRUE)[[1L]]
    rev(unlist(Reduce(file.path, parts[nzchar(parts)], point, accumulate = TRUE)))
  }, paste0(sub("/+$", "", root), mounts$point[visible]), below[visible])
}

# Lines "4:cpu,cpuacct:/path"; v2 is "0::/path". The path may contain colons.
cgroup_of_process <- function(root, controller) {
  fields <- match_fields("^[0-9]+:([^:]*):(/.*)$", 2L, read_lines(root, "proc/self/cgroup"))
  controllers <- strsplit(fields[, 1L], ",", fixed = TRUE)
  mine <- if (nzchar(controller)) {
    vapply(controllers, function(x) controller %in% x, NA)
  } else {
    fields[, 1L] == ""
  }
  fields[mine, 2L][1L]
}

# Lines "id parent dev root point options [tags] - type source superoptions",
# where the root is the part of the hierarchy that can be seen at the point.
# Other lines may well be malformed (WSL writes mount points with spaces).
cgroup_mounts <- function(root, controller) {
  fields <- match_fields(
    "^[0-9]+ [0-9]+ [0-9:]+ (/[^ ]*) (/[^ ]*) [^ ]+ (?:.* )?- (cgroup2?) [^ ]* ([^ ]+)$", 4L,
    read_lines(root, "proc/self/mountinfo")
  )
  mine <- if (nzchar(controller)) {
    options <- strsplit(fields[, 4L], ",", fixed = TRUE)
    fields[, 3L] == "cgroup" & vapply(options, function(x) controller %in% x, NA)
  } else {
    fields[, 3L] == "cgroup2"
  }
  mounts <- data.frame(root = unescape(fields[mine, 1L]), point = unescape(fields[mine, 2L]))
  # a later mount on the same point hides the earlier one
  mounts[!duplicated(mounts$point, fromLast = TRUE), ]
}

# `path` as seen from `top`: "" is `top` itself, NA not below it.
path_below <- function(top, path) {
  top <- sub("/$", "", top)
  if (path != top && !startsWith(path, paste0(top, "/"))) return(NA_character_)
  below <- substring(path, nchar(top) + 1L)
  # ".." leads out of the mount (a process moved out of its cgroup namespace)
  if (".." %in% strsplit(below, "/", fixed = TRUE)[[1L]]) NA_character_ else below
}

# The kernel escapes blanks and backslashes in mountinfo as octal; the latter are
# common, systemd names units like "app-org.gnome\x2dshell". Backslashes last.
unescape <- function(x) {
  for (code in c("040 ", "011\t", "012\n", "134\\")) {
    x <- gsub(paste0("\\", substr(code, 1L, 3L)), substring(code, 4L), x, fixed = TRUE)
  }
  x
}

# The `n` groups of `pattern`: a column each, a row for each line that matches.
match_fields <- function(pattern, n, lines) {
  found <- regmatches(lines, regexec(pattern, lines, perl = TRUE))
  groups <- lapply(found[lengths(found) > 0L], `[`, -1L)
  matrix(as.character(unlist(groups)), ncol = n, byrow = TRUE)
}
