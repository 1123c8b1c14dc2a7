# What a host says of itself when its fork server is ready, and what of that differs from the
# session. Both sides use this file.

host_report <- function(packages) {
  version <- function(p) tryCatch(as.character(utils::packageVersion(p)), error = function(e) NA)
  list(
    name = Sys.info()[["nodename"]], r = as.character(getRversion()),
    platform = R.version$platform, cores = available_cores(), umask = Sys.umask(NA),
    versions = vapply(c("clutch", packages), version, ""), libraries = .libPaths()
  )
}

# Lines that say what differs from `own`.
host_differences <- function(host, report, own) {
  differs <- function(what, there, here) {
    if (identical(there, here)) return(NULL)
    sprintf("%s has %s %s, and this session %s", host, what, there, here)
  }
  both <- intersect(names(own$versions), names(report$versions))
  of_packages <- lapply(both, function(p) {
    differs(paste("package", p), report$versions[[p]], own$versions[[p]])
  })
  c(
    differs("R", report$r, own$r), differs("platform", report$platform, own$platform),
    unlist(of_packages)
  )
}
