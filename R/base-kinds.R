# Launchers, kinds of hosts, and what maps make of their values are found by their names. The file
# that has one adds it when the package is built, so no other file has to name it.

kinds <- list(launcher = new.env(parent = emptyenv()), host = new.env(parent = emptyenv()),
              values = new.env(parent = emptyenv()))

# `make`: a function without arguments that returns it.
add_kind <- function(of, name, make) assign(name, make, envir = kinds[[of]])

kind_named <- function(of, name) kinds[[of]][[name]]()
