"""Biology: the likelihood of a phylogenetic tree, by Felsenstein's recursion with two rates."""

import numpy as np
from scipy.linalg import expm

BASES = "ACGT"
ALIGNMENT = {
    "human": "ACGTTGCAACGTATGCCTGA",
    "chimp": "ACGTTGCAACGTATGCTTGA",
    "gorilla": "ACGATGCAACGTTTGCTTGA",
    "gibbon": "ACGATGTAGCGTTTACTCGA",
}


class Node:
    def __init__(self, name=None, children=(), length=0.0):
        self.name, self.children, self.length = name, list(children), length

    def walk(self):
        """Children before their parents."""
        for child in self.children:
            yield from child.walk()
        yield self


def rate_matrix(kappa, frequencies):
    Q = np.empty((4, 4))
    transitions = {("A", "G"), ("G", "A"), ("C", "T"), ("T", "C")}
    for i, a in enumerate(BASES):
        for j, b in enumerate(BASES):
            Q[i, j] = frequencies[j] * (kappa if (a, b) in transitions else 1.0)
    Q[range(4), range(4)] = 0
    Q[range(4), range(4)] = -Q.sum(axis=1)
    return Q / -(frequencies @ np.diagonal(Q))


def partials(node, Q):
    if not node.children:
        L = np.zeros((len(ALIGNMENT[node.name]), 4))
        for site, base in enumerate(ALIGNMENT[node.name]):
            L[site, BASES.index(base)] = 1.0
        return L
    L = 1.0
    for child in node.children:
        L = L * (partials(child, Q) @ expm(Q * child.length).T)
    return L


def gamma_categories(shape, k=3):
    """Rates of k classes, of mean one: a crude discretization that is smooth in its shape."""
    z = (np.arange(k) - (k - 1) / 2) * 1.4
    rates = np.exp(z / np.sqrt(shape))
    return rates / rates.mean()


def log_likelihood(tree, kappa, frequencies, shape):
    Q = rate_matrix(kappa, frequencies)
    per_site = np.zeros(len(ALIGNMENT["human"]))
    rates = gamma_categories(shape)
    for rate in rates:
        per_site += partials(tree, rate * Q) @ frequencies / len(rates)
    return np.log(per_site).sum()


def tree(lengths):
    leaves = [Node(name, length=t) for name, t in zip(ALIGNMENT, lengths)]
    pair = Node(children=leaves[:2], length=lengths[4])
    triple = Node(children=[pair, leaves[2]], length=lengths[5])
    return Node(children=[triple, leaves[3]])


def main(log_lengths, kappa, composition, shape):
    frequencies = np.exp(composition) / np.exp(composition).sum()
    root = tree(np.exp(log_lengths))
    total = sum(node.length for node in root.walk())
    return -log_likelihood(root, kappa, frequencies, shape) + 2 * total


ARGUMENTS = (np.log([0.03, 0.05, 0.12, 0.3, 0.06, 0.1]), 2.5, np.array([0.1, 0.0, -0.1, 0.05]), 0.8)


def check():
    f = np.array([0.3, 0.2, 0.2, 0.3])
    Q = rate_matrix(2.0, f)
    np.testing.assert_allclose(Q.sum(axis=1), 0, atol=1e-14)
    np.testing.assert_allclose(f @ expm(Q), f, atol=1e-14)
    lengths = np.exp(ARGUMENTS[0])
    likelihood = log_likelihood(tree(lengths), 2.0, f, 1.0)
    assert likelihood < 0
    moved = lengths - np.array([0, 0, 0, 0.1, 0, -0.1])  # only the sum of both counts
    assert abs(log_likelihood(tree(moved), 2.0, f, 1.0) - likelihood) < 1e-9
