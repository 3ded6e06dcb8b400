"""python .gpu_try.py [FILE]: only floors, clocks and kernels alone; needs the carried cache (or 16 cores and a minute)."""
import subprocess, sys
sys.exit(subprocess.call([sys.executable, "benchmarks/gpu.py", "--only", "kernels", "--size", "small", "--models",
    "tree_lstm", "birnn", "mv_rnn", "listops", "child_sum_lstm", "bilstm_tagger", "--minutes", "5",
    "--json", *(sys.argv[1:] or ["gpu-kernels.json"])]))
