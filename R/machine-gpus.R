# Which GPUs this process may use: of NVIDIA's, as the environment, nvidia-smi or /proc says.

# Names for CUDA_VISIBLE_DEVICES. What was set for this process, as a batch system does, goes first.
find_gpus <- function(root = "/", visible = Sys.getenv("CUDA_VISIBLE_DEVICES", NA)) {
  if (!is.na(visible)) return(gpus_of_variable(visible))
  gpus <- gpus_of_smi(Sys.which("nvidia-smi"))
  if (length(gpus)) return(gpus)
  folders <- list.files(file.path(root, "proc/driver/nvidia/gpus"))
  as.character(seq_along(folders) - 1L)
}

# CUDA reads the list up to the first name that is none.
gpus_of_variable <- function(text) {
  names <- trimws(strsplit(text, ",", fixed = TRUE)[[1L]])
  bad <- which(!grepl("^([0-9]+|(GPU|MIG)-[0-9A-Za-z/-]+)$", names))
  if (length(bad)) names <- names[seq_len(bad[[1L]] - 1L)]
  unique(names)
}

gpus_of_smi <- function(program) {
  if (!nzchar(program)) return(character())
  lines <- tryCatch(
    suppressWarnings(system2(program, c("--query-gpu=index", "--format=csv,noheader"),
                             stdout = TRUE, stderr = FALSE, timeout = 10)),
    error = function(e) character()
  )
  lines <- trimws(lines)
  lines[grepl("^[0-9]+$", lines)]
}
