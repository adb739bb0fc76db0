"""Astrophysics: N bodies with softening by leapfrog, energies by double loops over pairs."""

import numpy as np


def getAcc(pos, mass, G, softening):
    x = pos[:, 0:1]
    y = pos[:, 1:2]
    z = pos[:, 2:3]
    dx = x.T - x
    dy = y.T - y
    dz = z.T - z
    inv_r3 = dx**2 + dy**2 + dz**2 + softening**2
    inv_r3[inv_r3 > 0] = inv_r3[inv_r3 > 0] ** (-1.5)
    ax = G * (dx * inv_r3) @ mass
    ay = G * (dy * inv_r3) @ mass
    az = G * (dz * inv_r3) @ mass
    return np.hstack((ax, ay, az))


def getEnergy(pos, vel, mass, G):
    KE = 0.5 * np.sum(np.sum(mass * vel**2))
    x = pos[:, 0:1]
    y = pos[:, 1:2]
    z = pos[:, 2:3]
    dx = x.T - x
    dy = y.T - y
    dz = z.T - z
    inv_r = np.sqrt(dx**2 + dy**2 + dz**2)
    inv_r[inv_r > 0] = 1.0 / inv_r[inv_r > 0]
    PE = G * np.sum(np.sum(np.triu(-(mass * mass.T) * inv_r, 1)))
    return KE, PE


def main(G, softening, spread, masses):
    N = len(masses)
    t, tEnd, dt = 0, 0.5, 0.05
    np.random.seed(17)
    mass = masses.reshape(N, 1) * np.ones((N, 1)) / N
    pos = spread * np.random.randn(N, 3)
    vel = np.random.randn(N, 3)
    vel -= np.mean(mass * vel, 0) / np.mean(mass)
    acc = getAcc(pos, mass, G, softening)
    KE, PE = getEnergy(pos, vel, mass, G)
    Nt = int(np.ceil(tEnd / dt))
    pos_save = np.zeros((N, 3, Nt + 1))
    pos_save[:, :, 0] = pos
    KE_save = np.zeros(Nt + 1)
    KE_save[0] = KE
    PE_save = np.zeros(Nt + 1)
    PE_save[0] = PE
    for i in range(Nt):
        vel += acc * dt / 2.0
        pos += vel * dt
        acc = getAcc(pos, mass, G, softening)
        vel += acc * dt / 2.0
        t += dt
        KE, PE = getEnergy(pos, vel, mass, G)
        pos_save[:, :, i + 1] = pos
        KE_save[i + 1] = KE
        PE_save[i + 1] = PE
    return KE_save[-1] - PE_save[3] + np.linalg.norm(pos_save[0, :, -1]) + pos_save.std()


ARGUMENTS = (1.0, 0.3, 1.2, np.array([5.0, 3.0, 2.0, 4.0, 6.0]))


def check():
    ke, pe = getEnergy(np.eye(3), np.zeros((3, 3)), np.ones((3, 1)), 1.0)
    assert ke == 0 and abs(pe + 3 / np.sqrt(2)) < 1e-12
