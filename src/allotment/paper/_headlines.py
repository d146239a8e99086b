"""The few results that the README shows."""

# An experiment, its label, and the methods that share nothing, share
# everything, and learn what to share.
HEADLINES = (
    ("two_pairs", "Two pairs of equal functions", "no_sharing", "shared_bottom", "gumbel"),
    ("codebooks", "Digits coded by two books", "no_sharing", "shared_bottom_mean", "gumbel"),
    ("mnist", "MNIST, upright and rotated", "no_sharing", "shared_bottom_mean", "gumbel"),
    ("omniglot_tuned", "Omniglot, well trained", "", "all_bent_shared_bottom", "all_bent"),
)
