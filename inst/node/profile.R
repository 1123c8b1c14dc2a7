# The site profile of a node that attaches R's own packages later, see R/start-packages.R. R runs
# it without any package, and with R_DEFAULT_PACKAGES=NULL.
local({
  was <- Sys.getenv("CLUTCH_PROFILE", NA)
  if (is.na(was)) Sys.unsetenv("R_PROFILE") else Sys.setenv(R_PROFILE = was)
  text <- Sys.getenv("CLUTCH_PACKAGES")
  Sys.unsetenv(c("CLUTCH_PROFILE", "CLUTCH_PACKAGES"))
  packages <- strsplit(text, ",", fixed = TRUE)[[1L]]
  is_ours <- identical(Sys.getenv("R_DEFAULT_PACKAGES"), "NULL") # else it was started otherwise
  if (is_ours) {
    Sys.setenv(R_DEFAULT_PACKAGES = text)
    options(defaultPackages = packages)
  }
  # the user's profile comes next: it finds package methods, as always
  user <- Sys.getenv("R_PROFILE_USER", NA)
  if (is.na(user)) user <- c(".Rprofile", "~/.Rprofile")
  if (any(file.exists(path.expand(user)))) .OptRequireMethods()

  # R calls it between that and attaching the packages, unless the profile has one of its own. Code
  # that the profile wants to run when they are loaded, or others that it wants: nothing is later.
  if (is_ours) assign(".First", envir = .AutoloadEnv, function() {
    rm(".First", envir = .AutoloadEnv)
    hooks <- lapply(packages, function(p) {
      c(getHook(packageEvent(p, "onLoad")), getHook(packageEvent(p, "attach")))
    })
    if (length(unlist(hooks)) || !identical(getOption("defaultPackages"), packages)) return()
    options(clutch.later = packages, defaultPackages = NULL)
  })

  # The one of the site: nothing but simple settings, see is_simple_code().
  site <- if (is.na(was)) file.path(R.home("etc"), "Rprofile.site") else path.expand(was)
  if (file.exists(site)) {
    for (code in parse(site, keep.source = FALSE)) {
      value <- withVisible(eval(code, globalenv()))
      if (value$visible) print(value$value)
    }
  }
})
