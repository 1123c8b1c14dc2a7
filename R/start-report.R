# A report is what a host says of itself when its fork server is ready. This file makes it, and
# finds what of it differs from the session. Both sides use this file.

# `packages`: those whose versions are compared.
host_report <- function(packages) {
  version <- function(p) {
    tryCatch(as.character(utils::packageVersion(p)), error = function(e) NA_character_)
  }
  list(
    name = Sys.info()[["nodename"]], r = as.character(getRversion()),
    platform = R.version$platform, locale = Sys.getlocale("LC_CTYPE"),
    utf8 = l10n_info()[["UTF-8"]], sorts = sort_order(Sys.getlocale("LC_COLLATE")),
    cores = available_cores(), umask = Sys.umask(NA), time_left = slurm_time_left(),
    slurm_node = Sys.getenv("SLURMD_NODENAME"),
    versions = vapply(packages, version, "", USE.NAMES = TRUE)
  )
}

# The value is what of a locale decides about the order: "en_US" of "en_US.UTF-8".
sort_order <- function(locale) {
  language <- sub("[.@].*", "", locale)
  if (language == "POSIX") "C" else language
}

# Seconds until Slurm ends the job that this process is in; NA: it is in none, or has no end.
slurm_time_left <- function() {
  end <- suppressWarnings(as.numeric(Sys.getenv("SLURM_JOB_END_TIME")))
  end - as.numeric(Sys.time())
}

# Packages that code on the nodes may use: these, and what the session has attached besides R's own.
# What load_all() has made is sent, see code-source.R.
packages_to_compare <- function(packages) {
  attached <- sub("^package:", "", grep("^package:", search(), value = TRUE))
  of_r <- c("base", "compiler", "datasets", "graphics", "grDevices", "grid", "methods", "parallel",
            "splines", "stats", "stats4", "tcltk", "tools", "utils")
  unique(c("clutch", setdiff(c(packages, attached), c(of_r, .Call(ffi_source_packages)))))
}

# Lines that say what differs from `own`, each once with the hosts of which it is true.
host_differences <- function(hosts, reports, own) {
  texts <- lapply(reports, differences_of, own)
  line <- function(text) {
    of <- hosts[vapply(texts, function(t) text %in% t, NA)]
    sprintf("%s %s %s", some_names(of), if (length(of) == 1L) "has" else "have", text)
  }
  vapply(unique(unlist(texts)), line, "", USE.NAMES = FALSE)
}

differences_of <- function(report, own) {
  differs <- function(what, there, here) {
    if (!identical(there, here)) sprintf("%s %s, and this session %s", what, there, here)
  }
  of_package <- function(p) {
    if (is.na(report$versions[[p]]) && !is.na(own$versions[[p]])) {
      return(sprintf("no package %s, which this session has", p))
    }
    differs(paste("package", p), report$versions[[p]], own$versions[[p]])
  }
  both <- intersect(names(own$versions), names(report$versions))
  c(
    differs("R", report$r, own$r), differs("platform", report$platform, own$platform),
    if (!identical(report$utf8, own$utf8)) differs("locale", report$locale, own$locale),
    differs("sort order", report$sorts, own$sorts), unlist(lapply(both, of_package))
  )
}

# "alpha", "alpha and beta", "alpha, beta, gamma and 5 more"
some_names <- function(names, most = 3L) {
  n <- length(names)
  if (n == 1L) return(names)
  if (n <= most) return(paste(paste(names[-n], collapse = ", "), "and", names[[n]]))
  sprintf("%s and %d more", paste(names[seq_len(most)], collapse = ", "), n - most)
}
