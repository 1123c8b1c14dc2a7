# Where the control groups of this process are in the file system.
#
# The formats are those of the manual pages cgroups(7), cgroup_namespaces(7) and proc(5). All files
# are read below `root`, so that tests can hand in the tree of another machine.

# The value is what the system tells of all control groups of this process: list(root, groups,
# mounts). It is read once for all controllers; who asks later reads it again, since a process may
# be moved.
#   groups   a matrix: controllers, path
#   mounts   a matrix: root, point, type, options
cgroup_view <- function(root) {
  mounts <- read_lines(root, "proc/self/mountinfo")
  list(root = root, groups = cgroup_groups(read_lines(root, "proc/self/cgroup")),
       mounts = cgroup_mounts(mounts[grepl(" cgroup", mounts, fixed = TRUE)]))
}

# The folders of this process's group in one hierarchy (`controller` "" is v2):
# a list with one vector for each mount that shows it, the group's own folder
# first, then its ancestors up to the mount point. A folder need not exist.
cgroup_folders <- function(view, controller) {
  group <- cgroup_of_process(view, controller)
  mounts <- mounts_of(view, controller)
  if (is.na(group) || !nrow(mounts)) return(list())

  below <- vapply(mounts[, 1L], path_below, "", path = group)
  visible <- !is.na(below)
  if (!any(visible)) {
    # A container that sees its own group as the mount point, under a name from
    # outside, or from another namespace ("/../.."): all we can know is that.
    mounts <- mounts[1L, , drop = FALSE]
    below <- ""
    visible <- TRUE
  }
  points <- paste0(sub("/+$", "", view$root), mounts[visible, 2L])
  Map(function(point, below) {
    parts <- strsplit(below, "/", fixed = TRUE)[[1L]]
    rev(unlist(Reduce(file.path, parts[nzchar(parts)], point, accumulate = TRUE)))
  }, points, below[visible])
}

# Lines "4:cpu,cpuacct:/path"; v2 is "0::/path". The path may contain colons.
cgroup_groups <- function(lines) match_fields("^[0-9]+:([^:]*):(/.*)$", 2L, lines)

cgroup_of_process <- function(view, controller) {
  fields <- view$groups
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
cgroup_mounts <- function(lines) {
  match_fields(
    "^[0-9]+ [0-9]+ [0-9:]+ (/[^ ]*) (/[^ ]*) [^ ]+ (?:.* )?- (cgroup2?) [^ ]* ([^ ]+)$", 4L, lines
  )
}

# Root and point of those that show this hierarchy: a matrix.
mounts_of <- function(view, controller) {
  fields <- view$mounts
  mine <- if (nzchar(controller)) {
    options <- strsplit(fields[, 4L], ",", fixed = TRUE)
    fields[, 3L] == "cgroup" & vapply(options, function(x) controller %in% x, NA)
  } else {
    fields[, 3L] == "cgroup2"
  }
  mounts <- cbind(unescape(fields[mine, 1L]), unescape(fields[mine, 2L]))
  # a later mount on the same point hides the earlier one
  mounts[!duplicated(mounts[, 2L], fromLast = TRUE), , drop = FALSE]
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
  if (!any(grepl("\\", x, fixed = TRUE))) return(x)
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
